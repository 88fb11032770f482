"""What a check takes from an experiment: its clients, staleness, model, recipe and settings."""

import pytest
import torch

from unstale.errors import ConfigError, DataError, UnknownNameError
from unstale.experiment import check as checking
from unstale.experiment import check_experiment, load_experiment
from unstale.inversion import InputSpec


class CalledError(Exception):
    """Ends the check where it would begin to train."""


@pytest.fixture
def taken(monkeypatch):
    """Return what `check_conversion` would be called with for the quickstart with overrides."""

    def take(*overrides, **settings):
        def called(model, **arguments):
            raise CalledError(model, arguments)

        monkeypatch.setattr(checking, "check_conversion", called)
        with pytest.raises(CalledError) as caught:
            check_experiment(load_experiment(overrides=overrides), **settings)
        return caught.value.args

    return take


def classes(arguments):
    return [y.unique().tolist() for _, y in arguments["data"]]


def test_the_quickstart(taken):
    model, arguments = taken()
    # One client in ten is slow: two of those who hold the fives, and 18 others.
    assert classes(arguments) == [[i % 10] for i in range(20)]
    assert arguments["slow"] == (5, 15)
    assert (arguments["staleness"], arguments["seed"], arguments["title"]) == (40, 10, "quickstart")
    assert arguments["local"].lr == 0.2
    assert arguments["inputs"] == InputSpec((1, 8, 8), 10, 0.0, 1.0)
    assert sum(p.numel() for p in model.parameters()) == 64 * 64 + 64 + 64 * 10 + 10
    assert arguments["method"].compensator.stand_in.enabled  # not the one labelled `arrivals`


def test_weights_are_those_that_a_run_begins_with(taken):
    from unstale import data
    from unstale.experiment.model import model_of
    from unstale.sim import Scenario

    config = load_experiment()
    scenario = Scenario(config.scenario, data.load("digits"), seed=12)
    model, _ = taken(seed=12)
    pairs = zip(model.parameters(), model_of(config, scenario).parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_overrides_and_settings(taken):
    _, arguments = taken(
        "latency.rounds=7", "latency.classes=[2]", "local.lr=0.5", seed=3, clients=4, conversions=4
    )
    assert classes(arguments) == [[0], [1], [2], [3]]
    assert (arguments["slow"], arguments["staleness"], arguments["seed"]) == ((2,), 7, 3)
    assert arguments["local"].lr == 0.5
    assert taken(staleness=9)[1]["staleness"] == 9


def test_an_experiment_in_which_nobody_is_late(taken):
    _, arguments = taken("latency={kind='none'}")
    assert (arguments["slow"], arguments["staleness"]) == (None, 20)
    assert classes(arguments) == [[i % 10] for i in range(20)]


def test_an_experiment_in_which_all_are_late(taken):
    _, arguments = taken("latency={kind='constant', rounds=11}")
    assert (arguments["slow"], arguments["staleness"]) == ((0, 1), 11)
    assert len(arguments["data"]) == 20


def test_the_method_to_check(taken):
    a = "{name='convert', label='a', inversion={history=4}}"
    table = f"methods=['drop', {a}, {{name='convert', label='b', inversion={{history=2}}}}]"
    assert taken(table)[1]["method"].compensator.inversion.history == 4
    assert taken(table, method="b")[1]["method"].compensator.inversion.history == 2
    assert taken("methods=['drop']")[1]["method"] is None
    with pytest.raises(UnknownNameError, match="Did you mean 'convert'"):
        check_experiment(load_experiment(), method="convrt")
    with pytest.raises(ConfigError, match=r"Found 'weighted'.*Choose one of: arrivals, convert"):
        check_experiment(load_experiment(), method="weighted")


def test_random_inputs_of_the_same_classes(taken):
    _, true = taken()
    _, arguments = taken(random_inputs=True)
    assert {k: arguments[k] for k in ("slow", "staleness", "inputs")} == {
        k: true[k] for k in ("slow", "staleness", "inputs")
    }
    assert classes(arguments) == classes(true)
    pairs = list(zip(arguments["data"], true["data"], strict=True))
    assert all(a.shape == b.shape and not torch.equal(a, b) for (a, _), (b, _) in pairs)


def test_random_inputs_are_said_to_be():
    config = load_experiment(overrides=["local.epochs=1"])
    quick = {"staleness": 1, "conversions": 2, "clients": 2}
    assert check_experiment(config, random_inputs=True, **quick).random_data
    assert not check_experiment(config, **quick).random_data


def test_random_data_without_the_data(taken, tmp_path):
    with pytest.raises(DataError, match="mnist"):
        check_experiment(load_experiment(overrides=["data.name=mnist"]), data_root=tmp_path)
    given = InputSpec((3,), 6, 0.0, 1.0)
    overrides = ("data.name=mnist", "model.name=mlp")
    _, arguments = taken(*overrides, random_inputs=given, data_root=tmp_path)
    assert (arguments["data"], arguments["inputs"]) == (None, given)
    assert (arguments["slow"], arguments["staleness"]) == (None, 40)


def test_threads_are_as_they_were(taken, monkeypatch):
    seen = []
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    taken()
    assert seen == [1, torch.get_num_threads()]
