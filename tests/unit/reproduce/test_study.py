"""A study script: one seed, one result file, and a picture that is drawn from the file."""

import json

import pytest

from unstale.errors import ConfigError
from unstale.reproduce.study import mean_of, run_study


class Drawn:
    """Notes what was drawn, and writes something."""

    def __init__(self):
        self.results = []

    def __call__(self, found, path):
        self.results.append(found)
        path.write_bytes(b"png")


def study(options):
    return {"seed": options.seed, "size": len(options.data("mnist").y_train), "at": {"a": 1 / 3}}


def test_a_smoke_run_writes_the_result_and_draws_what_was_written(tmp_path):
    draw, out = Drawn(), tmp_path / "one.json"
    run_study("About.", study, draw, ["--smoke", "--seeds", "12", "--out", str(out)])
    written = json.loads(out.read_text())
    assert (written["seed"], written["size"]) == (12, 1297)  # scikit-learn's digits
    assert written["about"]["seeds"] == [12]
    assert draw.results == [written]
    assert (tmp_path / "one.png").read_bytes() == b"png"


def test_a_result_is_drawn_anew_without_computing(tmp_path):
    out = tmp_path / "one.json"
    out.write_text('{"kept": 1}')
    draw = Drawn()

    def never(options):
        raise AssertionError("it should not be computed")

    run_study(None, never, draw, ["--draw", str(out)])
    assert draw.results == [{"kept": 1}]
    assert (tmp_path / "one.png").is_file()


def test_one_seed_for_each_file(tmp_path):
    with pytest.raises(ConfigError, match="one seed for each file"):
        run_study(None, study, Drawn(), ["--seeds", "1,2", "--out", str(tmp_path / "x.json")])


def test_means_over_result_files(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    for seed, value in ((10, 0.25), (11, 0.75)):
        text = json.dumps({"curve": [0, value], "at": {"a b": 2 * value}})
        (results / f"mnist_{seed}.json").write_text(text)
    (results / "other_10.json").write_text("{}")
    with pytest.raises(ConfigError, match="no results/none"):
        mean_of(tmp_path, "none", "at")
    assert mean_of(tmp_path, "mnist_*.json", "at/a b", "curve/1") == [1.0, 0.5]
