import dataclasses
import json

import pytest

from unstale.inversion import Inversion
from unstale.inversion.settings import THEMES
from unstale.methods import AGGREGATORS, METHODS, SERVER_OPTIMIZERS


def test_every_method_on_a_line(unstale):
    result = unstale("methods")
    assert result.code == 0
    lines = result.out.splitlines()
    for name, recipe in METHODS.items():
        assert any(line.split()[0] == name and recipe.does in line for line in lines if line)


@pytest.mark.parametrize("name", METHODS)
def test_settings_of_one(name, unstale):
    result = unstale("methods", name)
    assert result.code == 0
    recipe = METHODS[name]
    assert recipe.paper in result.out
    found = json.loads(unstale("methods", name, "--json").out)
    assert {*found["settings"], *found["groups"]} == set(recipe.fields())
    shown = [found["settings"], *(group["settings"] for group in found["groups"].values())]
    for settings in shown:
        for key, setting in settings.items():
            assert f"\n  {key} = " in result.out
            assert setting["about"]
    for group, described in found["groups"].items():
        assert f"\n[{group}]  {described['about']}" in result.out


def test_every_setting_of_the_inversion_has_one_theme():
    listed = [name for names in THEMES.values() for name in names]
    assert listed == [field.name for field in dataclasses.fields(Inversion)]


def test_defaults_and_docstrings(unstale):
    found = unstale("methods", "weighted").out
    assert "  a = 0.25\n      Steepness of the sigmoid." in found
    assert "  b = 10.0\n" in found


def test_unknown_method(unstale):
    result = unstale("methods", "nope")
    assert result.code == 2
    assert result.err.startswith("Error: A method should be one of: ")
    result = unstale("methods", "unweigted")
    assert (result.code, result.out) == (2, "")
    assert "Did you mean 'unweighted'?" in result.err


def test_json(unstale):
    found = json.loads(unstale("methods", "--json").out)
    assert list(found) == list(METHODS)
    assert found["drop"]["does"] == METHODS["drop"].does


def test_presets_are_shown_with_what_they_change(unstale):
    shown = unstale("methods", "convert").out
    assert "  default: the defaults above" in shown
    assert "  thorough: inversion.max_samples = 225, inversion.ensemble = 4" in shown
    found = json.loads(unstale("methods", "convert", "--json").out)
    assert found["presets"]["paper"]["inversion"]["objective"] == "l1"
    assert json.loads(unstale("methods", "weighted", "--json").out)["presets"] == {}


@pytest.mark.parametrize("parts", [AGGREGATORS, SERVER_OPTIMIZERS], ids=["aggr", "optimizers"])
def test_aggregators_and_server_optimizers_are_listed_and_shown(parts, unstale):
    lines = unstale("methods").out.splitlines()
    for name, spec in parts.items():
        assert any(line.split()[0] == name and spec.does in line for line in lines if line)
        shown = unstale("methods", name)
        assert shown.code == 0
        assert spec.paper in shown.out
        found = json.loads(unstale("methods", name, "--json").out)
        fields = [field.name for field in dataclasses.fields(spec.cls)]
        assert list(found["settings"]) == fields
        assert all(setting["about"] for setting in found["settings"].values())
        assert all(f"\n  {key} = " in shown.out for key in fields)
        assert fields or "No settings." in shown.out
