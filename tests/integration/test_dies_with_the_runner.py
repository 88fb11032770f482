"""A test runner that is killed with `kill -9` takes all that its tests started with it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from marked_processes import RUNNER, marked

HANGS = 600  # seconds
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="finds processes in /proc"
)

# As conftest.py begins. What it starts begins a session of its own and something else there.
RUNNER_OF_FEW = """
import subprocess, sys, time
from marked_processes import watch_this_process
print(watch_this_process(), flush=True)
sleeps = "import time; time.sleep(1000)"
starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleeps!r}])"
subprocess.Popen([sys.executable, "-c", starts], start_new_session=True)
print("ready", flush=True)
time.sleep(1000)
"""
RUNNER_OF_A_SITE = """
import sys, time
from pathlib import Path
from marked_processes import watch_this_process
print(watch_this_process(), flush=True)
from blobs_site import open_blobs_site, run_blobs, wait_for_version
from deployment import three_nodes
from records import Records
folder = Path(sys.argv[1])
records = Records(folder / "run", folder / "trace")
with open_blobs_site(folder) as site:
    site.start_nodes(*three_nodes(slow_rounds=0))
    run_blobs(site, records, num_rounds=1000)
    wait_for_version(records, 1)
    print("ready", flush=True)
    time.sleep(1000)
"""


def wait_for(holds, what):
    end = time.monotonic() + HANGS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def killed_when_ready(script, *arguments):
    """Start a runner, kill it once it is ready; return its processes and their mark."""
    code = f"import sys; sys.path[:0] = {sys.path!r}\n{script}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        mark = runner.stdout.readline().strip()
        assert runner.stdout.readline() == "ready\n"
        wait_for(lambda: len(marked(mark, variable=RUNNER)) > 1, "what it started")
        started = marked(mark, variable=RUNNER)
        runner.send_signal(signal.SIGKILL)
        assert runner.wait(HANGS) == -signal.SIGKILL
    return mark, started


def test_children_and_their_children_end():
    mark, started = killed_when_ready(RUNNER_OF_FEW)
    assert len(started) == 2
    wait_for(lambda: not marked(mark, variable=RUNNER), "their end")


@pytest.mark.slow
def test_a_whole_site_ends(tmp_path):
    pytest.importorskip("flwr")
    mark, started = killed_when_ready(RUNNER_OF_A_SITE, tmp_path)
    assert len(started) > 6, "SuperLink, SuperNodes and what they start"
    wait_for(lambda: not marked(mark, variable=RUNNER), "their end")
