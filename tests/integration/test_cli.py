"""What only a process of its own shows: signals, terminals, limits of the system."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading

import pytest
from command_line import HANGS

from unstale.experiment import RunFolder

SMALL = (
    "--no-report", "--seeds", "0", "--set", "rounds=12", "--set", 'methods=["first_order"]',
    "--set", "latency.rounds=3",
)  # fmt: skip
LONG = ("--no-report", "--seeds", "0", "--set", "rounds=100", "--set", 'methods=["first_order"]')
SUMMARY = "summary.json"


def test_python_m_unstale(tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", "unstale", "methods"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "unweighted" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_stopped_by_a_signal(number, start, finish, tmp_path, experiment):
    process = start("run", experiment, *LONG, "--out", "it's stopped", hold=50)
    while "round 1/" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 1
    assert out == ""
    assert "Traceback" not in err
    command = err.strip().splitlines()[-1]
    assert command.startswith("Stopped. Go on with: unstale run 'my quickstart.toml' --out ")
    assert not (tmp_path / "it's stopped" / SUMMARY).exists()

    _, *arguments = shlex.split(command.removeprefix("Stopped. Go on with: "))
    code, _, err = finish(*arguments)
    assert code == 0, err
    if number != signal.SIGINT:  # once is enough
        return
    assert finish("run", experiment, *LONG, "--out", "undisturbed")[0] == 0
    one, two = ((tmp_path / d / SUMMARY).read_bytes() for d in ("it's stopped", "undisturbed"))
    assert one == two


def test_a_second_process_is_refused(finish, tmp_path, experiment):
    first = RunFolder(tmp_path / "r")
    first.lock()
    code, out, err = finish("run", experiment, *SMALL, "--out", "r")
    first.unlock()
    assert (code, out) == (1, "")
    assert err.startswith("Error: One process at a time")


@pytest.mark.slow
def test_a_disk_that_is_full(finish, tmp_path, experiment):
    assert finish("run", experiment, *SMALL, "--out", "roomy")[0] == 0
    # In turn the resolved config, the lines, and the final model do not fit.
    for limit in (300, 2500, 15000):
        out = tmp_path / str(limit)
        full = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
        code, said, err = finish("run", experiment, *SMALL, "--out", out, before=full)
        assert (code, said) == (1, "")
        assert "Traceback" not in err
        assert err.splitlines()[-1].startswith("Error: The disk should have room")
        assert not list(out.rglob(".*.tmp"))
        assert not (out / SUMMARY).exists()

        code, _, err = finish("run", experiment, *SMALL, "--out", out, "--resume")
        assert code == 0, err
        assert (out / SUMMARY).read_bytes() == (tmp_path / "roomy" / SUMMARY).read_bytes()


def test_debug_shows_the_traceback(finish):
    code, _, err = finish("--debug", "run", "--set", "roundz=3")
    assert code == 1
    assert "Traceback" in err
    assert "UnknownNameError" in err


def test_a_table_in_a_terminal(start, tmp_path, experiment):
    ours, theirs = os.openpty()
    process = start("run", experiment, *SMALL, "--out", "r", stderr=theirs, stdout=theirs)
    os.close(theirs)
    seen = bytearray()

    def read():
        while True:
            try:
                block = os.read(ours, 4096)
            except OSError:  # how Linux says that nobody holds the other end any more
                return
            if not block:
                return
            seen.extend(block)

    reader = threading.Thread(target=read)
    reader.start()
    assert process.wait(timeout=HANGS) == 0
    reader.join(timeout=HANGS)
    os.close(ours)
    text = seen.decode()
    assert "\x1b[" in text  # drawn in place
    assert "refused" in text
    assert "12/12" in text
    assert "seed 0 round" not in text  # no plain lines besides
    assert "Run: r" in text


def test_plain_lines_in_a_pipe(finish, experiment):
    code, out, err = finish("run", experiment, *SMALL, "--out", "r", "--json")
    assert code == 0
    assert json.loads(out)["run"] == "r"
    assert "\x1b" not in out + err
    assert "first_order seed 0 round 12/12 accuracy 0." in err


def test_a_closed_pipe_is_no_disaster(start):
    process = start("methods")
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=HANGS)
    assert "Traceback" not in err
