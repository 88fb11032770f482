"""The strategy's settings, and the models and arrays that it takes."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from pretend_clients import (
    honest,
    in_a_run,  # noqa: F401
    late_grid,
    small_model,
)
from strategy_runs import start, strategy
from torch import nn

from unstale.errors import ConfigError
from unstale.flower import Unstale

pytestmark = pytest.mark.usefixtures("in_a_run")


@pytest.mark.parametrize(
    "options",
    [
        {"fraction_train": 0.0},
        {"fraction_train": True},
        {"fraction_evaluate": 1.5},
        {"min_train_nodes": 0},
        {"max_reply_bytes": 0},
        {"arrayrecord_key": "config"},
    ],
)
def test_settings_are_checked(options):
    with pytest.raises(ConfigError, match="should"):
        strategy(**options)


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
    assert grid._grid.pushed[0].content["arrays"]["bias"].numpy() == 7.0
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
