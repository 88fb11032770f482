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


@pytest.mark.parametrize("name", NAMES[:1])  # quickstart_paper has not been tuned yet
def test_every_method_has_the_settings_that_were_chosen(name):
    record = json.loads((FOLDER / "results" / name / "tuning.json").read_text("utf-8"))
    lists = load_experiment(FOLDER / f"{name}.toml")
    packaged = load_experiment(name)
    assert [m.label for m in packaged.methods] == [m.label for m in lists.methods]
    for ours, listed in zip(packaged.methods, lists.methods, strict=True):
        chosen = {}
        if listed.tune is not None:
            one = record["methods"][listed.label]
            assert one["candidates"] == listed.tune.to_json()
            chosen = one["tries"][one["chosen"]]["settings"]
        assert ours.build() == listed.with_settings(chosen).build(), ours.label
