"""Processes marked by a variable in their environment, which every descendant inherits.

Flower starts processes in sessions of their own (a SuperLink its SuperExec, `flwr run` a local
SuperLink, Ray all of its processes), so neither parents nor process groups tell what belongs to
a test. A mark does. There are two:

- `MARK` names one Flower site, so that a test finds the ServerApp of its own site;
- `RUNNER` names the process that runs the tests. `watch_this_process` sets it and starts a
  watchdog, which kills everything with that mark once the runner has ended, also by `kill -9`.

The file is the watchdog's program too: `python marked_processes.py TOKEN`. Linux only: it reads
/proc.
"""

import contextlib
import functools
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "UNSTALE_TEST_SITE"
RUNNER = "UNSTALE_TEST_RUNNER"

_watchdogs: list[subprocess.Popen[bytes]] = []  # kept, or Python warns of a child nobody waits for


def marked(mark: str, command: str = "", *, variable: str = MARK) -> list[int]:
    """Return the ids of running processes with the mark whose command line holds `command`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended while we looked, or is not ours
            environment = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # A zombie has neither; it is dead already.
            if f"{variable}={mark}".encode() in environment and command in line:
                found.append(int(entry.name))
    return sorted(found)


def kill(pids: list[int]) -> None:
    """Send `kill -9` to each; one that is gone already is no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_all(mark: str, seconds: float = 600, *, variable: str = MARK, quiet: int = 1) -> None:
    """Kill everything with the mark, also what is started meanwhile.

    Args:
        mark: The value of the variable.
        seconds: When to give up.
        variable: Which mark is meant.
        quiet: How many times in a row nothing should be found. A process between fork and exec
            still shows its parent's environment, so the watchdog looks more than once.
    """
    end, nothing = time.monotonic() + seconds, 0
    while nothing < quiet:
        left = marked(mark, variable=variable)
        nothing = 0 if left else nothing + 1
        if left and time.monotonic() > end:
            raise RuntimeError(f"Processes of the test should end when killed. Left: {left}.")
        kill(left)
        if left or nothing < quiet:
            time.sleep(0.05)


@functools.cache
def watch_this_process() -> str:
    """Have all processes that this one starts from now on end with it, and return their mark.

    The watchdog reads from a pipe whose other end only this process holds. However this process
    ends, the kernel closes that end.
    """
    token = secrets.token_hex(8)
    if not Path("/proc/self/environ").exists():
        return token
    # Without marks: neither this watchdog nor an outer one should kill it before its work is done.
    unmarked = {k: v for k, v in os.environ.items() if k not in (MARK, RUNNER)}
    reading, _held_open_until_we_end = os.pipe()
    watchdog = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, token], env=unmarked, stdin=reading,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    _watchdogs.append(watchdog)
    os.close(reading)
    os.environ[RUNNER] = token
    return token


if __name__ == "__main__":
    sys.stdin.buffer.read()  # ends when the runner does
    kill_all(sys.argv[1], variable=RUNNER, quiet=10)
