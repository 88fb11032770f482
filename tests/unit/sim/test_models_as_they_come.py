"""Simulations of models with BatchNorm and dropout, and of clients with another recipe."""

import pytest
import torch
from torch import nn

import unstale as us
from unstale.sim import Scenario, ScenarioSpec, Simulation
from unstale.sim.latency import ConstantLatency
from unstale.sim.partition import Iid, OneClass


def net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4)
        return nn.Sequential(*layers)


@pytest.fixture
def simulation(tiny):
    def make(buffers="averaged", partition=None, **options):
        model = net()
        latency = ConstantLatency(2, clients=(0, 5))
        held = partition or OneClass(clients=8, samples=10)
        spec = ScenarioSpec(partition=held, latency=latency)
        local = us.LocalSpec(lr=0.2, epochs=3, batch_size=5, buffers=buffers)
        server = us.Server(model, "weighted", local=local, seed=2)
        return Simulation(server, model, Scenario(spec, tiny, 2), **options)

    return make


def rounds(simulation, count):
    lines = [simulation.run_round() for _ in range(count)]
    return [(line.accuracy, line.loss, dict(line.oracle)) for line in lines]


@pytest.mark.parametrize("buffers", ["averaged", "local"])
def test_same_seed_same_numbers(simulation, buffers):
    torch.manual_seed(1)
    first = rounds(simulation(buffers, with_oracle=True), 6)
    torch.manual_seed(2)  # as in another process
    assert rounds(simulation(buffers, with_oracle=True, batched=True), 6) == first
    assert any(oracle["stale_l1"] is not None for _, _, oracle in first)


@pytest.mark.parametrize("buffers", ["averaged", "local"])
def test_saved_and_restored(simulation, buffers):
    whole = rounds(simulation(buffers), 6)
    begun = simulation(buffers)
    rounds(begun, 3)
    tree, versions = begun.to_tree()
    resumed = simulation(buffers)
    resumed.restore(tree, versions)
    assert rounds(resumed, 3) == whole[3:]


def test_it_learns_and_evaluates_with_its_statistics(simulation):
    # All classes on each client: BatchNorm does badly where clients differ much.
    averaged, local = (simulation(kind, Iid(clients=8)) for kind in ("averaged", "local"))
    assert rounds(averaged, 40)[-1][0] > 0.9
    assert rounds(local, 40)[-1][0] > 0.9
    assert averaged.model.training, "eval mode is for the evaluation only"
    assert "1.running_mean" in averaged.server.params
    assert "1.running_mean" not in local.server.params


def test_some_clients_train_by_another_recipe(simulation):
    other = us.LocalSpec(lr=0.01, epochs=1)
    deviating, honest = simulation(recipes={3: other}), simulation()
    sent = {}
    for name, one in (("other", deviating), ("same", honest)):
        submit = one.server.submit

        def noted(update, name=name, submit=submit):
            sent[name, update.client_id] = update.delta
            return submit(update)

        one.server.submit = noted
        one.run_round()
    for client in ("client-1", "client-2"):
        assert torch.equal(sent["other", client]["0.weight"], sent["same", client]["0.weight"])
    small, large = (sent[name, "client-3"]["0.weight"].norm() for name in ("other", "same"))
    assert small < large / 10
