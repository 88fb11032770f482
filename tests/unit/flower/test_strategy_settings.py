"""The strategy's settings, and the models and arrays that it takes."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from pretend_clients import (
    honest,
    late_grid,
    small_model,
)
from strategy_runs import start, strategy
from torch import nn

import unstale as us
from unstale.errors import ConfigError
from unstale.flower import Cohort, RecordNames, ReplyLimits, Unstale

pytestmark = pytest.mark.usefixtures("in_a_run")


@pytest.mark.parametrize(
    ("group", "options"),
    [
        (Cohort, {"fraction_train": 0.0}),
        (Cohort, {"fraction_train": True}),
        (Cohort, {"fraction_evaluate": 1.5}),
        (Cohort, {"min_train_nodes": 0}),
        (ReplyLimits, {"max_bytes": 0}),
        (ReplyLimits, {"longest_lateness": -1}),
        (RecordNames, {"arrayrecord_key": "config"}),
        (RecordNames, {"weighted_by_key": None}),
    ],
)
def test_settings_are_checked(group, options):
    with pytest.raises(ConfigError, match=f"`{next(iter(options))}`.* should"):
        group(**options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server", us.LocalSpec()),
        ("server", None),
        ("cohort", 0.5),
        ("close", {"fraction": 0.5}),
        ("reply_limits", us.Limits()),
        ("records", "arrays"),
        ("delay", 3),
        ("about", "a title"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(name, value):
    with pytest.raises(ConfigError, match=f"`{name}` should be"):
        strategy(**{name: value})


def test_a_model_that_is_none_is_named():
    with pytest.raises(ConfigError, match="`model` should be"):
        Unstale("a model", "unweighted")


def test_the_server_is_made_by_a_start():
    it = strategy(server=us.ServerSettings("weighted", seed=3))
    assert (it.method.name, it.settings.seed) == ("weighted", 3)
    with pytest.raises(ConfigError, match="made by `start`"):
        _ = it.server
    start(it, late_grid({3: 1.0, 4: 1.0}), rounds=1)
    assert (it.server.method.name, it.server.seed, it.server.version) == ("weighted", 3, 1)


def test_an_unknown_method_is_told_at_once():
    with pytest.raises(ConfigError, match="weighted"):
        strategy(server="wighted")


def test_a_strategy_around_it_is_told_why_not():
    it = strategy()
    with pytest.raises(ConfigError, match="itself"):
        it.configure_train(1, ArrayRecord(), ConfigRecord(), late_grid({3: 1.0}))


def test_a_model_that_flower_cannot_carry_is_refused_at_once():
    with pytest.raises(ConfigError, match="bfloat16"):
        Unstale(nn.Linear(2, 1).bfloat16())


def test_initial_arrays_take_the_place_of_the_models_weights():
    other = small_model()
    with torch.no_grad():
        other.bias.fill_(7.0)
    it = strategy()
    grid = late_grid({3: 1.0, 4: 1.0})
    start(it, grid, rounds=1, initial_arrays=ArrayRecord(other.state_dict()))
    assert grid.below.pushed[0].content["arrays"]["bias"].numpy() == 7.0
    with pytest.raises(ConfigError, match="initial_arrays"):
        start(it, grid, initial_arrays=ArrayRecord(nn.Linear(3, 1).state_dict()))


def test_arrays_by_number_are_taken_as_a_list_in_order():
    def listed(message):
        named = honest(message)
        return RecordDict({**named, "arrays": ArrayRecord(named["arrays"].to_numpy_ndarrays())})

    wanted = start(strategy(), late_grid({3: 1.0, 4: 1.0}), rounds=1)
    found = start(strategy(), late_grid({3: 1.0, 4: 1.0}, {4: listed}), rounds=1)
    assert np.array_equal(found.arrays["weight"].numpy(), wanted.arrays["weight"].numpy())


def test_shared_weights_and_buffers_travel_under_all_their_names():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(2, 2, bias=False)
            self.two = nn.Linear(2, 2, bias=False)
            self.two.weight = self.one.weight
            self.register_buffer("scale", torch.tensor(3))

    def client(message):
        model = Shared()
        state = message.content["arrays"].to_torch_state_dict()
        model.load_state_dict(state)
        with torch.no_grad():
            model.one.weight += 1.0
        return RecordDict(
            {
                "arrays": ArrayRecord(model.state_dict()),
                "metrics": MetricRecord({"num-examples": 3}),
            }
        )

    model = Shared()
    it = Unstale(model, "unweighted")
    result = start(it, late_grid({3: 1.0, 4: 1.0}, {3: client, 4: client}), rounds=1)
    assert set(result.arrays) == {"one.weight", "two.weight", "scale"}
    torch.testing.assert_close(it.server.params["one.weight"], model.one.weight.detach() + 1.0)
