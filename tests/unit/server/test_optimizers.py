"""A server with an optimizer: what it moves, what it leaves alone, and what is saved of it."""

import math

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import CheckpointError
from unstale.methods.server_optimizers import Moved
from unstale.params import add
from unstale.server.checkpoint import Checkpoints

ONE = us.FedAvgM(lr=1.0, momentum=0.5)


def model(value=0.0):
    made = nn.Linear(3, 1, bias=False)
    nn.init.constant_(made.weight, value)
    return made


def send(server, client, *values, base=None):
    version = server.version if base is None else base
    update = us.Update(client, version, {"weight": torch.tensor([values])}, 10)
    assert server.submit(update).accepted


def weights(server):
    return server.params["weight"].flatten().tolist()


@pytest.mark.parametrize("optimizer", ["plain", {"name": "plain"}, us.methods.Plain()])
def test_the_plain_one_is_the_default(optimizer):
    ends = []
    for server in (us.Server(model(0.1)), us.Server(model(0.1), optimizer=optimizer)):
        send(server, "a", 0.3, -0.7, 1e-9)
        server.step()
        ends.append(server.params["weight"])
        assert server.to_tree()[0]["optimizer_state"] == {}
    assert torch.equal(*ends)


def test_momentum_goes_over_rounds_and_rests_in_empty_ones():
    server = us.Server(model(), optimizer=ONE)
    send(server, "a", 1.0, 0.0, 0.0)
    server.step()
    assert weights(server) == [1.0, 0.0, 0.0]
    assert not server.step().changed, "nothing came: nothing moves, and nothing decays"
    send(server, "a", 0.0, 1.0, 0.0)
    server.step()
    assert weights(server) == [1.5, 1.0, 0.0]


def test_stand_ins_and_converted_updates_are_moved_like_any_other():
    server = us.Server(model(), "memory", optimizer=ONE)
    send(server, "a", 1.0, 0.0, 0.0)
    server.step()
    report = server.step(absent=["a"])
    assert [u.stand_in for u in report.updates] == [True]
    assert weights(server) == [2.5, 0.0, 0.0]  # v = 1/2 + 1


def test_a_round_that_is_not_finite_leaves_no_trace():
    server = us.Server(model(), optimizer=us.FedAdam())
    send(server, "a", 1.0, 1.0, 1.0)
    server.step()
    before, moments = server.params["weight"], server.to_tree()[0]["optimizer_state"]
    send(server, "a", 1e30, 0.0, 0.0)  # finite, but its square is not
    report = server.step()
    assert [note.kind for note in report.notes] == ["discarded"]
    assert not report.changed
    assert torch.equal(server.params["weight"], before)
    after = server.to_tree()[0]["optimizer_state"]
    assert torch.equal(after["second"]["weight"], moments["second"]["weight"])


def test_running_statistics_never_see_the_optimizer():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    server = us.Server(net, optimizer="fedadam")
    start = server.params
    delta = {n: torch.zeros_like(p) for n, p in start.items()}
    delta["1.running_var"] = torch.full((2,), 3.0)
    delta["1.num_batches_tracked"] = torch.tensor(5)
    delta["0.bias"] = torch.tensor([1.0, -1.0])
    server.submit(us.Update("a", 0, delta, 10))
    server.step()
    now = server.params
    assert now["1.running_var"].tolist() == [4.0, 4.0]
    assert now["1.num_batches_tracked"] == 5
    step = 0.1 * 0.1 / (math.sqrt(0.99e-6 + 0.01) + 1e-3)
    assert (now["0.bias"] - start["0.bias"]).tolist() == pytest.approx([step, -step], rel=1e-5)
    moments = server.to_tree()[0]["optimizer_state"]["second"]
    assert set(moments) == {n for n, _ in net.named_parameters()}


def test_no_memory_of_clients_is_not_no_momentum(tmp_path):
    """The velocity is of the model, not of a client; so it is kept with `without_memory`."""
    storage = us.Storage(checkpoints="without_memory")
    server = us.Server(model(), "memory", optimizer=ONE, storage=storage)
    send(server, "a", 1.0, 0.0, 0.0)
    server.step()
    server.save(tmp_path)
    again = us.Server.load(tmp_path, model())
    for one in (server, again):
        send(one, "b", 0.0, 0.0, 0.0)
        one.step()
        assert weights(one) == [1.5, 0.0, 0.0]


def test_checkpoints_from_before_there_were_optimizers(tmp_path):
    server = us.Server(model())
    send(server, "a", 1.0, 0.0, 0.0)
    server.step()
    tree, versions = server.to_tree()
    del tree["optimizer"], tree["optimizer_state"]
    Checkpoints(tmp_path).write({"server": tree}, versions)
    again = us.Server.load(tmp_path, model())
    assert again.optimizer == us.methods.Plain()
    assert weights(again) == [1.0, 0.0, 0.0]


class Half:
    """An optimizer of one's own."""

    def init(self):
        return {"rounds": 0}

    def move(self, params, change, state):
        return Moved(add(params, change, 0.5), {"rounds": state["rounds"] + 1})


def test_one_of_ones_own_is_given_again_when_loading(tmp_path):
    server = us.Server(model(), optimizer=Half())
    send(server, "a", 1.0, 0.0, 0.0)
    server.step()
    server.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"optimizer=\.\.\."):
        us.Server.load(tmp_path, model())
    again = us.Server.load(tmp_path, model(), optimizer=Half())
    assert weights(again) == [0.5, 0.0, 0.0]
    assert again.to_tree()[0]["optimizer_state"] == {"rounds": 1}
