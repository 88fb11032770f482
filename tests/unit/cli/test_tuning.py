"""`unstale run --tune` and `--tuned`: what is said, chosen and shown."""

import json
import shlex

import pytest

from unstale.cli.progress import LiveProgress

FILE = """
name = "mine"
rounds = 3
seeds = [10]
threads = 1
[data]
name = "digits"
[model]
name = "digits"
[local]
epochs = 1
[partition]
kind = "one_class"
clients = 10
samples = 9
[latency]
kind = "intertwined"
classes = [5]
clients = 1
rounds = 1
[cohort]
kind = "all"
[[methods]]
name = "no_delay"
[[methods]]
name = "first_order"
lam = 2.0
tune = { lam = [0.5, 1.0, 5.0] }
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.toml").write_text(FILE)
    return ("run", "mine.toml", "--no-report")


def test_tune_says_what_it_tries_and_shows_what_it_chose(unstale, mine, tmp_path):
    result = unstale(*mine, "--tune", "--out", "r", "--set", "tuning.budget=2")
    assert result.code == 0
    assert "Tuning on seeds 0, 1, by affected_and_overall: mean of the accuracies" in result.err
    assert "Budget: 2 per method." in result.err
    assert "  first_order: 2 of 3, drawn at random" in result.err
    assert "first_order-1 seed 0 round 3/3" in result.err
    assert "first_order seed 10 round 3/3" in result.err
    assert "tuned on seeds 0, 1" in result.out
    chosen = json.loads((tmp_path / "r/summary.json").read_text())["tuning"]
    (lam,) = chosen["methods"]["first_order"]["chosen"].values()
    assert f"lam = {lam:g}" in result.out
    assert "drawn at random" in result.out


def test_json_has_it_too(unstale, mine):
    found = json.loads(unstale(*mine, "--tune", "--json").out)
    assert len(found["tuning"]["methods"]["first_order"]["tried"]) == 3
    assert found["seeds"] == [10]


def test_without_tune_own_settings_are_used_and_that_is_said(unstale, mine):
    result = unstale(*mine)
    assert result.code == 0
    assert "Not tuned: first_order. Their own settings are used" in result.err
    assert "--tune" in result.err
    assert "tuned on" not in result.out


def test_tuned_takes_the_choice_of_a_run(unstale, mine, tmp_path):
    assert unstale(*mine, "--tune", "--out", "r").code == 0
    result = unstale(*mine, "--tuned", "r", "--seeds", "11", "--out", "s", "--set", "rounds=4")
    assert result.code == 0
    assert "Tuned before (r):\n  first_order: lam = " in result.err
    assert "That experiment differed in: rounds." in result.err
    assert "tuned in another run" in " ".join(result.out.split())
    one, two = (
        json.loads((tmp_path / d / "summary.json").read_text())["tuning"] for d in ("r", "s")
    )
    assert one["methods"] == two["methods"]


def test_a_record_beside_the_file_is_used(unstale, mine, tmp_path):
    assert unstale(*mine, "--tune", "--out", "r").code == 0
    (tmp_path / "mine.tuning.json").write_text((tmp_path / "r/tuning.json").read_text())
    result = unstale(*mine)
    assert result.code == 0
    assert "Tuned before (mine.tuning.json):" in result.err
    # It has no say where there is nothing to tune, or where tuning is asked for.
    plain = unstale(*mine, "--methods", "no_delay")
    assert plain.code == 0
    assert "Tuned before" not in plain.err
    assert "Tuning on seeds" in unstale(*mine, "--tune").err


def test_seeds_that_overlap(unstale, mine, tmp_path):
    result = unstale(*mine, "--tune", "--seeds", "1,10")
    assert result.code == 2
    assert "Found [1] in both `seeds` and `tuning.seeds`" in result.err
    assert not (tmp_path / "runs").exists()


def test_nothing_to_tune(unstale, mine, tmp_path):
    result = unstale(*mine, "--tune", "--methods", "no_delay")
    assert result.code == 2
    assert "Found no method with `tune`" in result.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("at", [("first_order-2", 0, 2), ("first_order", 10, 2)])
def test_the_command_that_goes_on(at, unstale, mine, tmp_path, monkeypatch):
    assert unstale(*mine, "--tune", "--out", "whole").code == 0
    advance = LiveProgress.advance

    def stop(self, label, seed, line):
        advance(self, label, seed, line)
        if (label, seed, line.number) == at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LiveProgress, "advance", stop)
        result = unstale(*mine, "--tune", "--out", "r")
    assert result.code == 1
    command = result.err.strip().splitlines()[-1].removeprefix("Stopped. Go on with: ")
    assert "--tune" in command
    again = unstale(*shlex.split(command)[1:])
    assert again.code == 0
    assert "Tuning on seeds" in again.err
    one, two = ((tmp_path / d / "summary.json").read_bytes() for d in ("whole", "r"))
    assert one == two


def test_the_report_command_shows_it(unstale, mine, tmp_path):
    assert unstale(*mine, "--tune", "--out", "r").code == 0
    result = unstale("report", "r")
    assert "tuned on seeds 0, 1" in result.out
    page = (tmp_path / "r/report.html").read_text()
    assert '<section id="tuning">' in page
    # The tries are a run of their own.
    assert unstale("report", "r/tuning").code == 0
