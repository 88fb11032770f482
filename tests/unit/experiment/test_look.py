"""Experiments in which clients' data drifts to another look."""

import dataclasses
import json

import pytest

from unstale import data
from unstale.data import registry
from unstale.errors import ConfigError, DataError
from unstale.experiment import load_data, parse
from unstale.report import write_report


@pytest.fixture
def table(_clouds, table, monkeypatch):
    """The tiny experiment, whose data drifts to its mirror image; one method, one seed."""

    def mirror(parts):
        old = parts["tiny-clouds"]
        return dataclasses.replace(old, name="mirrored", x_train=-old.x_train, x_test=-old.x_test)

    source = data.Derived("the clouds mirrored", ("tiny-clouds",), mirror)
    monkeypatch.setitem(registry.SOURCES, "mirrored", source)
    table |= {
        "seeds": [0],
        "methods": ["unweighted"],
        "drift": {"kind": "look", "to": "mirrored", "per_round": 0.5},
    }
    return table


def lines_of(folder):
    lines = map(json.loads, folder.lines_path("unweighted", 0).read_text().splitlines())
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def test_a_run_says_what_it_was_tested_on(run_tiny, tmp_path):
    folder = run_tiny("whole")
    says = "tiny-clouds and mirrored, of each class as clients hold them in that round"
    assert folder.read_json(folder.scenario_path(0))["test_set"] == says
    assert folder.read_json(folder.config_path)["drift"]["test"] == "clients"
    assert says in write_report(folder.path).read_text("utf-8")


def test_what_is_tested_on_changes_the_figures_but_not_the_training(run_tiny, table):
    losses, weights = set(), set()
    for test in ("clients", "old", "new"):
        table["drift"]["test"] = test
        folder = run_tiny(test)
        losses.add(lines_of(folder)[-1]["loss"])
        final = folder.checkpoints_path("unweighted", 0) / "final.safetensors"
        weights.add(final.read_bytes())
    assert (len(losses), len(weights)) == (3, 1)


def test_a_resumed_run_goes_on_with_the_same_data(run_tiny, recorder):
    whole = run_tiny("whole")
    with pytest.raises(KeyboardInterrupt):
        run_tiny("broken", progress=recorder(stop_after=4), checkpoint_seconds=0)
    assert lines_of(run_tiny("broken")) == lines_of(whole)
    assert lines_of(whole)[-1]["accuracy"] is not None


def test_looks_that_do_not_fit_are_refused_before_anything_runs(run_tiny, table, tmp_path):
    table["drift"]["to"] = "digits"
    with pytest.raises(ConfigError, match=r"one shape. Found \(3,\).*\(1, 8, 8\) in 'digits'"):
        run_tiny("none")
    assert not (tmp_path / "none").exists()
    table["drift"]["to"] = "tiny-clouds"
    with pytest.raises(ConfigError, match="another data set than"):
        run_tiny("none")


def test_missing_files_say_what_to_fetch(table, tmp_path):
    table["drift"]["to"] = "blended_mnist"
    with pytest.raises(DataError, match="unstale data fetch mnist"):
        load_data(parse(table), str(tmp_path))
