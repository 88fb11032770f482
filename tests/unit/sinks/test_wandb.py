"""The sink of Weights & Biases, with the real library, offline.

Each run is in a process of its own, as real ones are: wandb reads its settings once in a process,
and what is written is on the disk when that ends.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from read_back import wandb
from told_rounds import line

import unstale
from unstale.sinks import scalars_of

pytest.importorskip("wandb")

APART = """
import sys
from pathlib import Path
from told_rounds import tell_rounds
from unstale.run_folder import RunFolder

first, last, *labels = sys.argv[2:]
for label in labels:
    tell_rounds(RunFolder(Path(sys.argv[1])), "wandb", range(int(first), int(last) + 1), label,
                finish=last == "8")
"""


def tell(folder, first, last, *labels, **settings):
    """Tell rounds of methods to the sink in a process of its own; return what it says."""
    paths = [Path(__file__).parent, Path(unstale.__file__).parents[1]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **settings}
    env.pop("WANDB_SERVICE", None)
    words = [str(folder.path), str(first), str(last), *(labels or ("convert",))]
    return subprocess.run(
        [sys.executable, "-c", APART, *words],
        env=env,
        cwd=folder.path.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stderr


def test_what_is_written_can_be_read_back(folder):
    assert tell(folder, 1, 8, "convert", "memory") == ""
    runs = {run["name"]: run for run in wandb(folder.path).values()}
    assert set(runs) == {"convert seed 0", "memory seed 0"}
    assert {run["group"] for run in runs.values()} == {"two-sites run-001"}
    run = runs["convert seed 0"]
    for t in (1, 3, 8):
        for name, value in scalars_of(line(t)).items():
            assert dict(run["scalars"][name])[t] == pytest.approx(value), name
    assert run["scalars"]["refused/not_finite"] == [(4, 1), (5, 0), (6, 0), (7, 0), (8, 0)]
    assert run["summary"]["summary/accuracy"] == pytest.approx(0.75)
    assert run["config"]["local"] == {"lr": 0.1}
    assert run["config"]["method"]["label"] == "convert"
    assert run["project"] == "unstale"
    assert run["exit"] == [0]


def test_a_resumed_run_is_one_whole_run_of_the_same_id(folder):
    tell(folder, 1, 5)
    ((first, run),) = wandb(folder.path).items()
    assert (len(run["scalars"]["arrivals/all"]), run["exit"]) == (5, [1])
    tell(folder, 1, 8)
    ((id, run),) = wandb(folder.path).items()
    assert id == first
    assert [step for step, _ in run["scalars"]["arrivals/all"]] == list(range(1, 9))
    assert run["exit"] == [0]
    assert len(list((folder.path / "wandb").glob("offline-run-*"))) == 1


def test_its_own_settings_say_where(folder, tmp_path):
    (tmp_path / "mine").mkdir()
    tell(folder, 1, 3, WANDB_DIR=str(tmp_path / "mine"), WANDB_PROJECT="hospital")
    assert not (folder.path / "wandb").exists()
    (run,) = wandb(tmp_path / "mine").values()
    assert run["project"] == "hospital"


def test_a_server_that_is_away_does_not_stop_the_run(folder):
    # Online, at a port of this machine that nobody listens on.
    said = tell(
        folder,
        1,
        3,
        WANDB_MODE="online",
        WANDB_BASE_URL="http://127.0.0.1:9",
        WANDB_API_KEY="0" * 40,
        WANDB_INIT_TIMEOUT="1",
    )
    (ours,) = (text for text in said.splitlines() if text.startswith("The sink"))
    assert ours.startswith("The sink WandB failed and gets no more of this run: CommError: ")
