"""On Flower: BatchNorm's statistics are averaged, and clients with another recipe are noticed."""

import copy
import dataclasses
import json
import logging

import pytest
import torch
from flwr.app import Array
from pretend_clients import late_grid, reply
from strategy_runs import start
from torch import nn

import unstale as us
from unstale.errors import ModelError
from unstale.flower import Unstale
from unstale.methods.conversion import recipe_fits, recipe_verdict
from unstale.params import subtract
from unstale.training.client import client_update, statistics_of

pytestmark = pytest.mark.usefixtures("in_a_run")

SPEC = us.LocalSpec(lr=0.2, momentum=0.5, epochs=5)
INPUTS = us.InputSpec(shape=(6,), classes=4, low=-1.5, high=1.5)


def small_net(*layers):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return nn.Sequential(nn.Linear(6, 12), *layers, nn.ReLU(), nn.Linear(12, 4))


def data_of(node):
    rng = torch.Generator().manual_seed(node)
    centres = 2 * torch.randn(4, 6, generator=torch.Generator().manual_seed(99))
    y = torch.tensor([node % 4, node % 4, (node + 1) % 4]).repeat(8)
    return (centres[y] + torch.randn(24, 6, generator=rng)).clamp(-6, 6) / 4, y


def trains(model, spec):
    """A client that trains the whole state that it gets, as a user's app would."""

    def client(message):
        state = message.content["arrays"].to_torch_state_dict()
        x, y = data_of(message.metadata.dst_node_id)
        delta = client_update(model, state, x, y, spec)
        return reply({n: Array((p + delta[n]).numpy()) for n, p in state.items()}, len(x))

    return client


def test_a_client_with_another_recipe_is_noticed(tmp_path, caplog, monkeypatch):
    monkeypatch.setitem(recipe_fits.SMALL, "iterations", 20)
    monkeypatch.setattr(recipe_verdict, "MIN_SCORE", 0.2)
    model = small_net()
    other = dataclasses.replace(SPEC, lr=SPEC.lr * 3)
    clients = {node: trains(model, other if node == 4 else SPEC) for node in (4, 5, 6, 7)}
    method = us.Convert(calibration=False, recipe_check=us.RecipeCheck(clients=2))
    settings = us.ServerSettings(method, SPEC, inputs=INPUTS, seed=1)
    strategy = Unstale(model, settings, folder=tmp_path / "run")
    with caplog.at_level(logging.WARNING, "unstale"):
        start(strategy, late_grid(dict.fromkeys(clients, 1.0), clients), rounds=8)
    warnings = [r.getMessage() for r in caplog.records if "another recipe" in r.getMessage()]
    assert len(warnings) == 1
    assert "Updates of 4 look like training that goes about three times as far" in warnings[0]
    (path,) = (tmp_path / "run" / "rounds").rglob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(o["client"], o["found"]) for o in lines[-1]["other_recipes"]] == [("4", "faster")]


def test_statistics_of_batch_norm_are_averaged():
    model = small_net(nn.BatchNorm1d(12), nn.Dropout(0.2))
    clients = {node: trains(model, SPEC) for node in (4, 5)}
    strategy = Unstale(model, us.ServerSettings("unweighted", SPEC))
    begun = {**us.params_of(model), **statistics_of(model)}
    result = start(strategy, late_grid(dict.fromkeys(clients, 1.0), clients), rounds=1)
    each = [client_update(model, begun, *data_of(node), SPEC) for node in clients]
    found = result.arrays.to_torch_state_dict()
    for name in ("1.running_mean", "1.running_var"):
        mean = begun[name] + (each[0][name] + each[1][name]) / 2
        torch.testing.assert_close(found[name], mean)
    assert found["1.num_batches_tracked"] == 5
    trained = copy.deepcopy(model)
    trained.load_state_dict(found)
    changed = subtract(us.params_of(trained), us.params_of(model))
    assert all(change.abs().sum() > 0 for change in changed.values())


def test_statistics_stay_on_clients_and_convert_refuses():
    model = small_net(nn.BatchNorm1d(12))
    local = dataclasses.replace(SPEC, buffers="local")
    clients = {node: trains(model, local) for node in (4, 5)}
    strategy = Unstale(model, us.ServerSettings("unweighted", local))
    result = start(strategy, late_grid(dict.fromkeys(clients, 1.0), clients), rounds=1)
    assert torch.equal(result.arrays.to_torch_state_dict()["1.running_mean"], torch.zeros(12))
    with pytest.raises(ModelError, match="fix_model"):
        Unstale(model, us.ServerSettings("convert", SPEC, inputs=INPUTS))
