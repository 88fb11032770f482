"""The packaged experiments are what was tuned: same scenario, and settings that were chosen."""

import json
import tomllib
from importlib import resources

import pytest
from doc_pages import ROOT

from unstale.experiment import load_experiment

FOLDER = ROOT / "experiments" / "quickstart"
NAMES = ("quickstart", "quickstart_paper")
# What a packaged experiment adds to the methods, or has in other words.
TEXTS = {"name", "title", "description", "methods", "tuning"}


@pytest.mark.parametrize("name", NAMES)
def test_the_scenario_is_the_one_that_was_tuned_on(name):
    text = (resources.files("unstale.experiment") / f"{name}.toml").read_text("utf-8")
    packaged = tomllib.loads(text)
    tuned = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    assert {k: v for k, v in packaged.items() if k not in TEXTS} == {
        k: v for k, v in tuned.items() if k not in TEXTS
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_tuned_method_has_the_settings_that_were_chosen(name):
    record = json.loads((FOLDER / "results" / name / "tuning.json").read_text("utf-8"))
    listed = {m.label: m for m in load_experiment(FOLDER / f"{name}.toml").methods}
    packaged = {m.label: m for m in load_experiment(name).methods}
    for label, one in record["methods"].items():
        assert one["candidates"] == listed[label].tune.to_json()
        chosen = one["tries"][one["chosen"]]["settings"]
        assert packaged[label].build() == listed[label].with_settings(chosen).build(), label


@pytest.mark.parametrize("name", NAMES)
def test_every_method_is_tuned(name):
    record = json.loads((FOLDER / "results" / name / "tuning.json").read_text("utf-8"))
    labels = [m.label for m in load_experiment(name).methods]
    assert [*record["methods"]] == [la for la in labels if la not in ("no_delay", "unweighted")]
