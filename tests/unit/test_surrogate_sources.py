"""The study in `experiments/surrogate_sources`: its rows, its table, and its smoke run."""

import doctest
import importlib
import json
import math
import sys
from pathlib import Path

import pytest

from unstale.check import Errors, Measured
from unstale.methods import ConvertAll, DataFreeGenerator, DreamedInputs

STUDY = Path(__file__).parents[2] / "experiments" / "surrogate_sources"
MODULES = ("ways", "tables", "study")


@pytest.fixture(scope="module")
def study():
    """The study's modules, which import each other by bare names; forgotten afterwards."""
    known = dict(sys.modules)
    sys.path.insert(0, str(STUDY))
    for name in MODULES:  # another study's may be known under the same name
        sys.modules.pop(name, None)
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(STUDY))
        for name in MODULES:
            sys.modules.pop(name, None)
            if name in known:
                sys.modules[name] = known[name]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_study_hold(study, name):
    outcome = doctest.testmod(study[name])
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_every_way_uses_its_estimates_as_they_are(study):
    found = study["ways"].ways({"0": (0.5, 0.5)}, "all")
    assert len(found) == 12
    for name, part in found.items():
        if isinstance(part, ConvertAll):
            assert (part.max_growth, part.calibration.enabled) == (0, False)
            assert part.inversion.residual == ("no residual" not in name)
        else:
            kind = DataFreeGenerator if name.startswith("generator") else DreamedInputs
            assert type(part) is kind
            assert part.surrogate.max_growth == 0
            assert part.iterations == kind().iterations
            assert bool(part.surrogate.shares) == ("known" in name)
            assert part.surrogate.residual == ("residual" in name)
            assert part.surrogate.soft_labels == ("soft" in name)


def test_a_row_has_the_errors_of_its_way(study):
    stale, used = Errors(0.2, 0.6, 0.7, 1.1), Errors(0.1, math.nan, 0.4, 0.9)
    one = Measured("dreams", 3, 1, stale, used, ("converted",), {"start": "cold"}, 0.25)
    row_of = study["study"].row_of
    assert row_of(one, "stale") == {
        "way": "stale", "client": 3, "arrival": 1, "error": 0.2, "l1": 0.6, "norms": 1.1,
    }  # fmt: skip
    assert row_of(one, "dreams") == {
        "way": "dreams", "client": 3, "arrival": 1, "error": 0.1, "l1": None, "norms": 0.9,
        "kinds": "converted", "start": "cold", "seconds": 0.25,
    }  # fmt: skip


def test_the_table_has_both_distances_and_counts_fallbacks(study):
    line = {"set": "s", "scenario": "c", "way": "dreams", "tau": 5, "kinds": "converted"}
    rows = [
        {**line, "seed": 0, "error": 0.25, "l1": 1.5},
        {**line, "seed": 0, "error": 0.35, "l1": 2.5, "kinds": "fallback"},
        {**line, "seed": 0, "tau": 20, "error": None, "l1": 0.5},
    ]
    cosine, l1 = study["tables"].errors(rows).split("\n\n")
    assert cosine.splitlines()[-1].split() == ["s", "c", "dreams", "0.300", "-", "0.000", "1"]
    assert l1.splitlines()[-1].split()[3:5] == ["2.000", "0.500"]


def test_a_smoke_run_writes_every_way_with_its_origin(study, tmp_path, monkeypatch, capsys):
    out = tmp_path / "rows.json"
    words = ["study.py", "--smoke", "--iterations", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    study["study"].main()
    found = json.loads(out.read_text())
    assert found["about"]["seeds"] == [0]
    assert {"commit", "command", "hardware"} <= found["about"].keys()
    ways = ["stale", *study["ways"].ways({}, "main")]
    assert list(dict.fromkeys(row["way"] for row in found["rows"])) == ways
    assert len(found["rows"]) == 2 * len(ways)  # one client, two updates
    assert all(0 <= row["error"] <= 2 and row["l1"] >= 0 for row in found["rows"])
    assert study["tables"].errors(study["tables"].read(out)) in capsys.readouterr().out
