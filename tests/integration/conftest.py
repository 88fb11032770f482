"""The command line as a process of its own."""

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import unstale

# Signals as in a terminal, also where the tests run in the background and ignore Ctrl-C.
PRELUDE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
MAIN = "from unstale.cli import main; main()"


@pytest.fixture
def start(tmp_path):
    """Start `unstale ARGUMENTS` in the test's folder; what is left running is killed."""
    started = []
    package = str(Path(unstale.__file__).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}

    def run(*arguments, before="", **options):
        code = PRELUDE + before + MAIN
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)], cwd=tmp_path, env=env, **options
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def experiment(tmp_path):
    """A copy of the quickstart, so that nobody changes it while a test runs."""
    text = (resources.files("unstale.experiment") / "quickstart.toml").read_text("utf-8")
    (tmp_path / "my quickstart.toml").write_text(text)
    return "my quickstart.toml"


@pytest.fixture
def finish(start):
    """Run `unstale ARGUMENTS` to its end; return its exit code, stdout and stderr."""

    def run(*arguments, **options):
        process = start(*arguments, **options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    return run
