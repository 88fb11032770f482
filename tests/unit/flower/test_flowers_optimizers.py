"""Server optimizers against the strategies of the real Flower library, round by round.

Where Flower differs from the papers, and the tests say how:

- FedAdam, FedYogi and FedAdagrad begin with v₋₁ = 0; the paper asks for at least τ².
- FedAdam corrects for bias, which the paper does not, and one round late: in round t, counted
  from 1, its learning rate is η·√(1 − β₂^(t+1)) / (1 − β₁^(t+1)).
- FedAdagrad has no momentum, as in the paper's experiments. FedAvgM is as published.
"""

import math

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, Metadata, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvgM, FedYogi

import unstale as us
from unstale.methods.server_optimizer_registry import as_server_optimizer

pytestmark = pytest.mark.usefixtures("in_a_run")

ROUNDS = 6
NODES = {11: 10, 12: 30, 13: 5}  # examples of each node


class Nodes:
    """The part of a Grid that FedAvg reads when it configures a round."""

    def get_node_ids(self):
        return list(NODES)


def changes(seed=0):
    """What each node adds to the weights in each round; the last weight is never touched."""
    rng = np.random.default_rng(seed)
    drawn = 0.05 * rng.standard_normal((ROUNDS, len(NODES), 6))
    drawn[..., -1] = 0.0
    return drawn


def by_flower(strategy, before_round=lambda strategy, number: None):
    """The weights after every round of Flower's strategy."""
    arrays = ArrayRecord({"w": Array(np.linspace(-1.0, 1.0, 6))})
    found = []
    for number, of_round in enumerate(changes(), start=1):
        strategy.configure_train(number, arrays, ConfigRecord(), Nodes())
        now = arrays["w"].numpy()
        replies = [
            reply(node, examples, now + change)
            for (node, examples), change in zip(NODES.items(), of_round, strict=True)
        ]
        before_round(strategy, number)
        arrays, _ = strategy.aggregate_train(number, replies)
        found.append(arrays["w"].numpy().tolist())
    return found


def reply(node, examples, weights):
    """What a node sends back."""
    metadata = Metadata(
        run_id=7,
        message_id="",
        src_node_id=node,
        dst_node_id=1,
        reply_to_message_id="asked",
        group_id="",
        created_at=0.0,
        ttl=1.0,
        message_type="train",
    )
    metrics = MetricRecord({"num-examples": examples})
    content = RecordDict({"arrays": ArrayRecord({"w": Array(weights)}), "metrics": metrics})
    return Message(metadata=metadata, content=content)


def by_unstale(optimizer):
    """The weights after every round of a server with the optimizer, from the same nodes."""
    model = torch.nn.Linear(6, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.linspace(-1.0, 1.0, 6, dtype=torch.float64))
    server = us.Server(model, "unweighted", optimizer=optimizer)
    found = []
    for number, of_round in enumerate(changes()):
        for (node, examples), change in zip(NODES.items(), of_round, strict=True):
            delta = {"weight": torch.from_numpy(change).reshape(1, 6)}
            assert server.submit(us.Update(str(node), number, delta, examples)).accepted
        server.step()
        found.append(server.params["weight"].flatten().tolist())
    return found


def test_the_same_as_flowers_fedavgm():
    theirs = by_flower(FedAvgM(server_learning_rate=0.7, server_momentum=0.9))
    ours = by_unstale({"name": "fedavgm", "lr": 0.7, "momentum": 0.9})
    assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_the_same_as_flowers_fedadagrad_from_zero():
    theirs = by_flower(FedAdagrad(eta=0.1, tau=0.01))
    ours = by_unstale(us.FedAdagrad(lr=0.1, tau=0.01, initial_v=0.0))
    assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_the_same_as_flowers_fedyogi_from_zero():
    theirs = by_flower(FedYogi(eta=0.1, beta_1=0.9, beta_2=0.99, tau=0.01))
    ours = by_unstale(us.FedYogi(lr=0.1, tau=0.01, initial_v=0.0))
    assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def correction(number, beta1=0.9, beta2=0.99):
    """Flower's bias correction in a round."""
    return math.sqrt(1 - beta2 ** (number + 1)) / (1 - beta1 ** (number + 1))


def test_the_same_as_flowers_fedadam_but_for_its_bias_correction():
    def undo(strategy, number):
        strategy.eta = 0.1 / correction(number)

    theirs = by_flower(FedAdam(eta=0.1, beta_1=0.9, beta_2=0.99, tau=0.01), before_round=undo)
    ours = by_unstale(us.FedAdam(lr=0.1, tau=0.01, initial_v=0.0))
    assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    corrected = by_flower(FedAdam(eta=0.1, beta_1=0.9, beta_2=0.99, tau=0.01))
    first, start = np.array(ours[0]), np.linspace(-1.0, 1.0, 6)
    assert np.allclose(corrected[0] - start, correction(1) * (first - start), rtol=1e-12)


@pytest.mark.parametrize(
    ("strategy", "name"),
    [(FedAdagrad, "fedadagrad"), (FedAdam, "fedadam"), (FedYogi, "fedyogi"), (FedAvgM, "fedavgm")],
)
def test_where_the_defaults_are_the_same_and_where_not(strategy, name):
    ours, theirs = as_server_optimizer(name), strategy()
    if name == "fedavgm":
        assert (ours.lr, theirs.server_learning_rate) == (1.0, 1.0)
        assert (ours.momentum, theirs.server_momentum) == (0.9, 0.0)  # theirs is off
        return
    assert (ours.beta1, ours.tau) == (theirs.beta_1, theirs.tau)
    if name != "fedadagrad":
        assert ours.beta2 == theirs.beta_2
