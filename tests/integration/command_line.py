"""Starts `unstale ARGUMENTS` as a process of its own, which a test can hold or kill."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import unstale

HANGS = 600  # seconds after which a test gives up; none is expected to come near

# Signals as in a terminal, also where the tests run in the background and ignore Ctrl-C.
_PRELUDE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
_MAIN = "\nfrom unstale.cli import main; main()"
_HOLD = """
import os, time
from unstale.cli.progress import LiveProgress

advance, told = LiveProgress.advance, []

def held(self, *arguments):
    advance(self, *arguments)
    told.append(1)
    while len(told) >= {rounds} and not os.path.exists("go"):
        time.sleep(0.02)

LiveProgress.advance = held
"""


def start(
    folder: Path, *arguments: object, before: str = "", hold: int | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start the command line.

    Args:
        folder: Its working folder.
        arguments: What follows `unstale`.
        before: Code that the process executes first.
        hold: Wait after so many rounds until `release` is called. So a run does not end before
            the test has done what it wants to do to it, however busy the machine is.
        options: For `subprocess.Popen`; by default both outputs are pipes.
    """
    paths = [str(Path(unstale.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": "1",
    }
    code = _PRELUDE + before + ("" if hold is None else _HOLD.format(rounds=hold)) + _MAIN
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, env=env, **options)


def release(folder: Path) -> None:
    """Let runs go on that were started with `hold`."""
    (folder / "go").touch()


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end of a process; return its exit code, stdout and stderr."""
    out, err = process.communicate(timeout=HANGS)
    return process.returncode, out, err
