"""Old names in an experiment file: each is known, and the error shows what to write."""

import tomllib
from dataclasses import fields

import pytest

from unstale.errors import ConfigError
from unstale.experiment.old_names import refuse_old_names, renamed_method, renamed_setting
from unstale.methods import METHODS
from unstale.methods.groups import groups_of

# The flat settings of the method `invert`, as they were before they were grouped.
FLAT = [
    "sample_share", "min_samples", "max_samples", "iterations", "warm_iterations", "good_after",
    "good_loss", "objective", "optimizer", "lr", "label_lr", "warm_lr", "full_step_loss",
    "schedule", "start", "noise", "bounded", "sparsity", "history", "tv", "patience", "tolerance",
    "cuts", "restart_loss", "max_loss", "residual", "max_seconds", "at_once", "max_conversions",
    "round_seconds", "max_clients", "unique", "unique_threshold", "unique_unknown", "unique_rule",
    "switch", "switch_window", "switch_disparity", "switch_patience", "switch_keep",
    "switch_slack",
]  # fmt: skip
STAYED = ["warm_start", "max_growth", "fallback", "preset", "server_lr"]


def instead(method, settings):
    """The table that the error says to write, and what it says before."""
    with pytest.raises(ConfigError) as caught:
        refuse_old_names(method, settings, "methods[3]")
    said, _, toml = str(caught.value).partition("Write instead:")
    (table,) = tomllib.loads(toml)["methods"]
    return table, said


@pytest.mark.parametrize(
    ("old", "new"),
    [("unstale", "no_delay"), ("invert", "convert"), ("convert", None), ("nope", None)],
)
def test_methods(old, new):
    assert renamed_method(old) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("good_after", "inversion.warm_min_iterations"),
        ("full_step_loss", "inversion.shrink_steps_below"),
        ("cuts", "inversion.max_lr_cuts"),
        ("sparsity", "inversion.sparsity"),
        ("at_once", "inversion.at_once"),
        ("unique", "uniqueness.enabled"),
        ("unique_rule", "uniqueness.rule"),
        ("switch", "switching.enabled"),
        ("switch_slack", "switching.match_window"),
        ("switch_keep", "switching.keep"),
        ("round_seconds", "budget.round_seconds"),
        # A group of today with a setting of yesterday.
        ("inversion.cuts", "inversion.max_lr_cuts"),
        ("switching.switch_window", "switching.window"),
        # In its group each has the name of today.
        ("inversion.sparsity", None),
        ("switching.patience", None),
        ("inversion.nope", None),
        ("nope", None),
    ],
)
@pytest.mark.parametrize("method", ["invert", "convert"])
def test_settings(method, old, new):
    assert renamed_setting(method, old) == new


@pytest.mark.parametrize("key", STAYED)
def test_what_stayed_is_not_old(key):
    assert renamed_setting("invert", key) is None
    refuse_old_names("convert", {key: 1}, "methods[0]")


@pytest.mark.parametrize("key", FLAT)
def test_every_flat_setting_has_a_place(key):
    group, _, setting = renamed_setting("invert", key).partition(".")
    assert group in {"inversion", "uniqueness", "switching", "budget"}
    table, said = instead("convert", {key: 0.5})
    assert table == {"name": "convert", group: {setting: 0.5}}
    assert f"setting `{key}`, now `{group}.{setting}`" in said


def test_every_place_is_a_setting_of_today():
    assert set(METHODS) >= {renamed_method(name) for name in ("unstale", "invert")}
    convert = METHODS["convert"].compensator
    settings = {name: {f.name for f in fields(group)} for name, group in groups_of(convert).items()}
    for key in FLAT:
        group, _, setting = renamed_setting("invert", key).partition(".")
        assert setting in settings[group]
    assert {key for key in STAYED if key not in ("preset", "server_lr")} <= {
        field.name for field in fields(convert)
    }


def test_two_flat_settings_never_share_a_place():
    assert len({renamed_setting("invert", key) for key in FLAT}) == len(FLAT)


def test_other_methods_may_have_settings_of_these_names():
    assert renamed_setting("w_pred", "history") is None
    refuse_old_names("w_pred", {"history": 3, "unique": True}, "methods[0]")


def test_the_whole_table_is_shown_with_its_values():
    table, said = instead(
        "invert",
        {
            "label": 'say "ü"',
            "switch": False,
            "sparsity": 0,
            "max_loss": float("inf"),
            "objective": "l1+cosine",
            "warm_start": True,
            "inversion": {"lr": 0.1, "cuts": 3},
            "bounds": [1, 2.5],
        },
    )
    assert table == {
        "name": "convert",
        "label": 'say "ü"',
        "warm_start": True,
        "bounds": [1, 2.5],
        "switching": {"enabled": False},
        "inversion": {
            "sparsity": 0,
            "max_loss": float("inf"),
            "objective": "l1+cosine",
            "lr": 0.1,
            "max_lr_cuts": 3,
        },
    }
    assert said.startswith("`methods[3]` should use the names of today. Found method 'invert', now")


def test_a_method_that_was_renamed_alone():
    assert instead("unstale", {"server_lr": 0.5})[0] == {"name": "no_delay", "server_lr": 0.5}


def test_names_of_today_pass():
    settings = {"fallback": "keep", "inversion": {"sparsity": 0.9}, "switching": {"window": 0.2}}
    refuse_old_names("convert", settings, "methods[0]")
    refuse_old_names("no_delay", {}, "methods[0]")
