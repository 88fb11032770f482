import json
from pathlib import Path

import pytest

from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment import load_experiment, parse
from unstale.experiment.load import PACKAGED
from unstale.methods import METHODS
from unstale.sim.drift import LookDrift
from unstale.sim.latency import IntertwinedLatency
from unstale.sim.partition import DirichletLabels

ROOT = Path(__file__).parents[3]
SHIPPED = sorted(
    path
    for path in (ROOT / "experiments").rglob("*.toml")
    if path.name not in ("sweep.toml", "cells.toml", "item.toml", "paper.toml", "cpu_size.toml")
)


@pytest.fixture
def table(table):
    """With a data set that is always registered."""
    table["data"]["name"] = "digits"
    return table


@pytest.mark.parametrize("source", [*PACKAGED, *SHIPPED], ids=str)
def test_shipped_experiments_survive_the_round_trip(source):
    config = load_experiment(source)
    resolved = config.to_json()
    # Functions of one's own are imported from the folder of the file.
    folder = str(source.parent.resolve()) if isinstance(source, Path) else None
    assert parse(resolved, folder) == config
    through_a_file = parse(json.loads(json.dumps(resolved, allow_nan=False)), folder)
    assert through_a_file == config
    assert through_a_file.to_json() == resolved


def test_round_trip_with_every_table(table):
    table |= {
        "oracle": True,
        "description": "d",
        "local": {"lr": 1, "optimizer": "adam", "betas": [0.5, 0.9], "steps": 3},
        "latency": {"kind": "intertwined", "classes": [1, 2], "clients": 1, "rounds": [3, 4]},
        "availability": {"kind": "markov", "drop": 0.2},
        "drift": {"kind": "resample", "per_round": 2, "stop": 9},
        "evaluate": {"every": 3, "affected": [1, 2], "target": 1, "window": 5, "reference": "drop"},
        "history": {"max_versions": 5, "memory_bytes": 0},
        "limits": {"max_norm": 3, "max_examples": 10},
        "methods": [{"name": "asyn_tiers", "bounds": [0, 5]}, {"name": "drop"}],
    }
    config = parse(table)
    assert parse(json.loads(json.dumps(config.to_json()))) == config
    assert config.local.lr == 1.0
    assert config.scenario.latency == IntertwinedLatency((1, 2), 1, (3, 4))
    assert config.evaluate.affected == (1, 2)
    assert (config.evaluate.window, config.evaluate.reference) == (5, "drop")


def test_round_trip_of_a_drift_to_another_look(table):
    table["drift"] = {"kind": "look", "to": "grey_svhn", "per_round": 0.5, "classes": [5]}
    config = parse(table)
    assert config.scenario.drift == LookDrift("grey_svhn", 0.5, classes=(5,))
    assert config.to_json()["drift"]["test"] == "clients"
    assert parse(json.loads(json.dumps(config.to_json()))) == config
    table["drift"]["to"] = "blended_mnits"
    with pytest.raises(UnknownNameError, match=r"`drift\.to`.*Did you mean 'blended_mnist'"):
        parse(table)


def test_defaults_are_filled_in():
    config = parse(
        {
            "name": "n",
            "rounds": 1,
            "data": {"name": "digits"},
            "model": {"name": "digits"},
            "methods": ["unweighted"],
        }
    )
    assert config.seeds == (0,)
    assert config.scenario.partition == DirichletLabels()
    assert config.scenario.overlap is False
    assert config.oracle is False
    resolved = config.to_json()
    assert resolved["latency"] == {
        "kind": "intertwined", "classes": (5,), "clients": 10, "rounds": 40, "others": 0
    }  # fmt: skip
    assert resolved["local"]["lr"] == 0.01


LEVELS = {
    "experiment": ((), "roundz", "rounds"),
    "data": (("data",), "nme", "name"),
    "local": (("local",), "moment", "momentum"),
    "partition": (("partition",), "sample", "samples"),
    "latency": (("latency",), "class", "classes"),
    "cohort": (("cohort",), "fats", "fast"),
    "availability": (("availability",), "kidn", None),
    "evaluate": (("evaluate",), "evry", "every"),
    "history": (("history",), "max_version", "max_versions"),
    "limits": (("limits",), "maxnorm", "max_norm"),
    "method": (("methods", 1), "lamb", "lam"),
}


@pytest.mark.parametrize("level", LEVELS)
def test_unknown_keys_at_every_level_name_the_nearest(level, table):
    path, key, nearest = LEVELS[level]
    here = table
    for part in path:
        here = here[part] if isinstance(here, list) else here.setdefault(part, {})
    here[key] = 1
    with pytest.raises(UnknownNameError) as caught:
        parse(table)
    assert caught.value.nearest == nearest
    assert f"Found '{key}'" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rounds", 0, "at least 1"),
        ("rounds", -3, "at least 1"),
        ("rounds", True, "whole number"),
        ("rounds", 2.0, "whole number"),
        ("rounds", "5", "whole number"),
        ("name", 5, "text"),
        ("name", "", "letters"),
        ("name", "../x", "letters"),
        ("name", "a/b", "letters"),
        ("title", 5, "text"),
        ("overlap", 1, "true or false"),
        ("oracle", "no", "true or false"),
        ("threads", 0, "at least 1"),
        ("threads", True, "a whole number"),
        ("seeds", [], "seeds"),
        ("seeds", 3, "seeds"),
        ("seeds", [0, 0], "seeds"),
        ("seeds", [-1], "seeds"),
        ("seeds", [True], "seeds"),
        ("seeds", [1.0], "seeds"),
        ("seeds", "01", "seeds"),
        ("seeds", [[1]], "seeds"),
        ("methods", [], "at least one"),
        ("methods", "unweighted", "at least one"),
        ("methods", [5], "table"),
        ("methods", [{"label": "x"}], "methods\\[0\\].name"),
        ("data", "digits", "\\[data\\] should be a table"),
        ("data", {}, "`data.name` should be one of.*Found nothing"),
        ("model", {"name": "lenett"}, "Did you mean 'lenet'"),
        ("model", {}, "`model.name`.*Found nothing"),
        ("data", {"name": "mnits"}, "Did you mean 'mnist'"),
        ("local", {"lr": 0}, "\\[local\\].*above 0"),
        ("local", {"lr": float("inf")}, "finite"),
        ("local", {"epochs": True}, "whole number"),
        ("local", {"epochs": 1, "steps": 1}, "not both"),
        ("evaluate", {"every": 0}, "at least 1"),
        ("evaluate", {"target": 1.5}, "\\(0, 1\\]"),
        ("evaluate", {"window": 0}, "`window` should be at least 1"),
        ("evaluate", {"reference": "unweigted"}, "Did you mean 'unweighted'"),
        ("latency", {"kind": "intertwind"}, "Did you mean 'intertwined'"),
        ("latency", {"kind": "trace"}, "path"),
    ],
)
def test_wrong_values(key, value, message, table):
    table[key] = value
    with pytest.raises(ConfigError, match=message):
        parse(table)


@pytest.mark.parametrize("key", ["name", "rounds", "data", "model", "methods"])
def test_what_has_no_default_must_be_there(key, table):
    del table[key]
    with pytest.raises(ConfigError, match=key):
        parse(table)


@pytest.mark.parametrize(
    "label",
    ["../x", "a/b", "..", ".hidden", "", " ", "a b", "a\n", "-x", "x" * 65, "ä", "a\\b", "[b]"],
)
def test_unsafe_labels(label, table):
    table["methods"][0]["label"] = label
    with pytest.raises(ConfigError, match=r"methods\[0\].label"):
        parse(table)


@pytest.mark.parametrize("label", ["a", "0", "first_order-lam=0.5", "a.b+c", "x" * 64])
def test_safe_labels(label, table):
    table["methods"][0]["label"] = label
    assert parse(table).methods[0].label == label


@pytest.mark.parametrize("second", ["taylor", "Taylor"])
def test_labels_differ_also_where_capitals_do_not_count(second, table):
    table["methods"].append({"name": "first_order", "label": second})
    with pytest.raises(ConfigError, match="twice"):
        parse(table)


def test_one_method_twice_under_two_labels(table):
    table["methods"] = [
        {"name": "first_order", "label": "a", "lam": 0.1},
        {"name": "first_order", "label": "b", "lam": 0.2},
    ]
    built = [m.build().compensator.lam for m in parse(table).methods]
    assert built == [0.1, 0.2]


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "first_order", "lam": "x"},
        {"name": "first_order", "lam": True},
        {"name": "first_order", "lam": float("nan")},
        {"name": "first_order", "fallback": 3},
        {"name": "first_order", "fallback": "nope"},
        {"name": "drop", "max_staleness": 1.5},
        {"name": "drop", "max_staleness": True},
        {"name": "asyn_tiers", "bounds": 3},
        {"name": "weighted", "a": [1]},
        {"name": "unweighted", "label": 5},
    ],
    ids=str,
)
def test_wrong_settings_of_methods_are_found_at_once(settings, table):
    table["methods"] = [settings]
    with pytest.raises(ConfigError):
        parse(table)


def test_settings_of_methods_take_the_types_of_their_fields(table):
    table["methods"] = [{"name": "weighted", "a": 1}, {"name": "asyn_tiers", "bounds": [0, 3]}]
    config = parse(table)
    assert type(config.methods[0].settings["a"]) is float
    assert config.methods[1].settings["bounds"] == (0, 3)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_by_its_bare_name(name, table):
    table["methods"] = [name]
    config = parse(table)
    assert config.methods[0].build().name == name
    assert parse(json.loads(json.dumps(config.to_json()))) == config


def test_the_given_table_is_left_alone(table):
    before = json.dumps(table)
    parse(table)
    assert json.dumps(table) == before


@pytest.mark.parametrize(
    ("methods", "says"),
    [
        (["unstale"], "now 'no_delay'"),
        ([{"name": "invert", "sparsity": 0.0}], r"\[methods.inversion\]\nsparsity = 0.0"),
        ([{"name": "convert", "switch_slack": 0.2}], "now `switching.match_window`"),
        ([{"name": "convert", "inversion": {"cuts": 3}}], "now `inversion.max_lr_cuts`"),
    ],
)
def test_an_old_name_is_an_error_that_names_the_new_one(table, methods, says):
    with pytest.raises(ConfigError, match=says):
        parse({**table, "methods": methods})


def test_groups_are_tables_with_types_of_their_own(table):
    convert = {"name": "convert", "inversion": {"sparsity": 0}, "switching": {"enabled": False}}
    (method,) = parse({**table, "methods": [convert]}).methods
    assert method.settings["inversion"] == {"sparsity": 0.0}
    assert method.build().compensator.inversion.sparsity == 0
    assert parse(parse({**table, "methods": [convert]}).to_json()).methods == (method,)
    with pytest.raises(ConfigError, match=r"methods\[0\].inversion.sparsity. should be a number"):
        parse({**table, "methods": [{"name": "convert", "inversion": {"sparsity": "none"}}]})
    with pytest.raises(ConfigError, match=r"\[methods\[0\].inversion\] should be a table"):
        parse({**table, "methods": [{"name": "convert", "inversion": 3}]})


@pytest.mark.parametrize("group", ["uniqueness", "switching", "stand_in"])
def test_a_group_that_can_be_off_also_takes_a_bool(table, group):
    (method,) = parse({**table, "methods": [{"name": "convert", group: False}]}).methods
    assert getattr(method.build().compensator, group).enabled is False
    assert method.settings == {group: {"enabled": False}}
    (as_table,) = parse(
        {**table, "methods": [{"name": "convert", group: {"enabled": False}}]}
    ).methods
    assert as_table == method


@pytest.mark.parametrize("group", ["inversion", "budget"])
def test_a_group_that_is_always_on_takes_none(table, group):
    with pytest.raises(ConfigError, match=rf"methods\[0\].{group}\] should be a table.*False"):
        parse({**table, "methods": [{"name": "convert", group: False}]})


def test_clients_with_another_recipe(table):
    table = {**table, "local": {"lr": 0.1, "epochs": 5}}
    config = parse({**table, "other_local": {"clients": [0, 2], "lr": 0.3, "steps": 7}})
    assert config.local.lr == 0.1
    assert config.other_local.clients == (0, 2)
    assert (config.other_local.local.lr, config.other_local.local.num_steps(10)) == (0.3, 7)
    assert parse(config.to_json()) == config
    assert parse(table).other_local is None
    with pytest.raises(ConfigError, match="other_local"):
        parse({**table, "other_local": {"lrate": 0.3}})
