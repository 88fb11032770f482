"""The zoo from the command line, each cell in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ZOO = Path(__file__).parents[2] / "experiments" / "zoo"

CELL = """
[[cells]]
name = "{name}"
data = "digits"
scaling = "unit"
model = "{model}"
clients = {{ kind = "dirichlet", alpha = 0.3, samples = 12, count = 4 }}
local = {{ lr = 0.1, steps = 2 }}
staleness = 2
slow = 2
begin = 1
arrivals = 2
every = 1
"""


@pytest.mark.slow
def test_cells_run_side_by_side_and_one_that_fails_stops_no_other(tmp_path):
    file, out = tmp_path / "cells.toml", tmp_path / "out.jsonl"
    models = {"good": "digits", "unknown": "no_such_model", "own": "gru"}
    file.write_text("".join(CELL.format(name=n, model=m) for n, m in models.items()))
    command = [sys.executable, str(ZOO / "run.py"), "--file", str(file), "--out", str(out)]
    command += ["--jobs", "2", "--seeds", "0", "--methods", "", "--try", "brief", "iterations=3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    _, *lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {line["cell"]: line["status"] for line in lines} == {
        "good": "done",
        "unknown": "failed",
        "own": "done",
    }
    (failed,) = [line for line in lines if line["status"] == "failed"]
    assert "no_such_model" in failed["reason"]
    tables = [sys.executable, str(ZOO / "tables.py"), str(out)]
    text = subprocess.run(tables, capture_output=True, text=True, timeout=600, check=True).stdout
    assert "| good | 2 |" in text
    assert "| own | 2 |" in text
    assert "| unknown | 0 | failed |" in text
