"""Processes found by a mark in their environment, which every descendant inherits.

Flower starts helpers in sessions of their own (a SuperLink its SuperExec, `flwr run` a local
SuperLink, Ray all of its processes), so neither parents nor process groups tell what belongs to
a test. Linux only: it reads /proc.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "UNSTALE_TEST_SITE"


def marked(mark: str, command: str = "") -> list[int]:
    """Return the ids of running processes with the mark whose command line holds `command`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended while we looked, or is not ours
            environment = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # A zombie has neither; it is dead already.
            if f"{MARK}={mark}".encode() in environment and command in line:
                found.append(int(entry.name))
    return sorted(found)


def kill(pids: list[int]) -> None:
    """Send `kill -9` to each; one that is gone already is no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_all(mark: str, seconds: float = 20) -> None:
    """Kill everything with the mark, also what is started meanwhile."""
    end = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < end:
        kill(left)
        time.sleep(0.05)
    if left := marked(mark):
        raise RuntimeError(f"Processes of the test should end when killed. Left: {left}.")
