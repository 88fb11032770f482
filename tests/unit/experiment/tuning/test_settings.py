"""`tune` of methods and the table [tuning], as an experiment file has them."""

import pytest

from unstale.errors import ConfigError
from unstale.experiment import load_experiment, parse
from unstale.experiment.tuning.plan import plan
from unstale.experiment.tuning.spec import TuningSpec


@pytest.fixture
def table(table, _clouds):
    table["seeds"] = [10, 11]
    table["methods"][1]["tune"] = {"lam": [0.5, 5]}
    return table


def tries(config):
    record = plan(config.methods, config.tuning, config.to_json())
    return {label: [one.settings for one in m.tries] for label, m in record.methods.items()}


def test_the_defaults(table):
    config = parse(table)
    assert config.tuning == TuningSpec(seeds=(0, 1), budget=None, criterion="affected_and_overall")
    assert [method.label for method in config.tunable] == ["taylor"]
    assert tries(config) == {"taylor": [{"lam": 0.5}, {"lam": 5}]}
    assert config.methods[1].settings == {"lam": 0.5}  # its own


@pytest.mark.parametrize("tune", [{"lam": [0.5, 5]}, [{}, {"lam": 2}, {"fallback": "drop"}]])
def test_json_and_back(table, tune):
    table["methods"][1]["tune"] = tune
    config = parse(table)
    assert parse(config.to_json()) == config


def test_an_experiment_without_lists_has_no_tuning(table):
    del table["methods"][1]["tune"]
    config = parse(table)
    assert config.tuning is None
    assert "tuning" not in config.to_json()


def test_groups_and_own_settings_are_kept(table):
    table["methods"] = [
        {
            "name": "convert",
            "inversion": {"sparsity": 0.5, "lr": 0.2},
            "tune": {"inversion.sparsity": [0, 0.9], "stand_in": [True, False]},
        }
    ]
    (method,) = parse(table).methods
    tuned = method.with_settings({"inversion.sparsity": 0.9, "stand_in": False})
    assert tuned.settings == {
        "inversion": {"sparsity": 0.9, "lr": 0.2},
        "stand_in": {"enabled": False},
    }
    assert tuned.tune is None
    assert tuned.build().compensator.inversion.sparsity == 0.9


def test_off_and_a_setting_of_the_same_group(table):
    table["methods"] = [
        {"name": "convert", "tune": {"stand_in": [False], "switching.patience": [4]}}
    ]
    (method,) = parse(table).methods
    found = method.with_settings({"stand_in": False, "stand_in.max_age": 3})
    assert found.settings["stand_in"] == {"enabled": False, "max_age": 3}


def test_overrides_reach_lists(table, tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(
        'rounds = 3\nseeds = [10]\n[data]\nname = "digits"\n[model]\nname = "digits"\n'
        '[[methods]]\nname = "first_order"\ntune = { lam = [1, 2] }\n'
    )
    config = load_experiment(
        file, overrides=["methods.first_order.tune.lam=[3, 4, 5]", "tuning.budget=2"]
    )
    assert config.methods[0].tune.grid == {"lam": [3, 4, 5]}
    assert len(tries(config)["first_order"]) == 2


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        ({"seed": [0]}, "A key of [tuning] should be one of: budget, criterion, seeds. Found 'see"),
        ({"seeds": []}, "[tuning] `seeds` should be a list of different whole numbers"),
        ({"seeds": [2, 2]}, "[tuning] `seeds` should be a list of different whole numbers"),
        ({"seeds": [-1]}, "[tuning] `seeds` should be a list of different whole numbers"),
        ({"budget": 0}, "[tuning] `budget` should be at least 1. Found 0."),
        ({"criterion": "affected_men"}, "Did you mean 'affected_mean'?"),
        ({"seeds": [9, 11]}, "Found [11] in both `seeds` and `tuning.seeds`."),
    ],
)
def test_a_wrong_table(table, tuning, said):
    table["tuning"] = tuning
    with pytest.raises(ConfigError) as caught:
        parse(table)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ({"lamda": [1, 2]}, "`taylor.tune` with {'lamda': 1}: A setting of method 'first_order'"),
        ({"lam": [1, "x"]}, "`taylor.tune.lam` should be a number. Found 'x'."),
        ({"lam": [1, -2]}, "`taylor.tune` with {'lam': -2}: "),
        ([{"lam": "x"}], "`taylor.tune.lam` should be a number"),
        ({"lam": 3}, "`methods[1].tune.lam` should be a list of values to try."),
    ],
)
def test_wrong_values_are_found_before_anything_runs(table, tune, said):
    table["methods"][1]["tune"] = tune
    with pytest.raises(ConfigError) as caught:
        parse(table)
    assert said in str(caught.value)


def test_values_that_are_not_drawn_have_the_right_type_too(table):
    table["tuning"] = {"budget": 1}
    table["methods"][1]["tune"] = {"lam": [*range(50), "x"]}
    with pytest.raises(ConfigError, match="should be a number"):
        parse(table)


def test_different_numbers_of_settings_need_a_budget(table):
    table["methods"].append({"name": "weighted", "tune": {"b": [10, 20, 30]}})
    with pytest.raises(ConfigError, match=r"different numbers of settings: taylor 2, weighted 3\."):
        parse(table)
    table["tuning"] = {"budget": 2}
    assert {label: len(found) for label, found in tries(parse(table)).items()} == {
        "taylor": 2,
        "weighted": 2,
    }
