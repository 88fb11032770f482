"""Who is registered with a server, and how late each client counts as."""

import json

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError
from unstale.server.registration import Registration


class Seen:
    """An aggregator that keeps what it is told of the clients, and changes nothing."""

    def __init__(self):
        self.clients = []

    def init(self):
        return {}

    def apply(self, updates, state, view):
        self.clients.append(dict(view.clients))
        return us.FedAvg().apply([], state, view)


@pytest.fixture
def seen():
    return Seen()


@pytest.fixture
def server(seen):
    return us.Server(nn.Linear(2, 1), aggregator=seen)


def answer(server, client, base):
    zeros = {n: torch.zeros_like(p) for n, p in server.params.items()}
    assert server.submit(us.Update(client, base, zeros, 1)).accepted


def test_without_registration_nobody_is_known_whoever_answers(server, seen):
    server.check_out("a")
    answer(server, "a", 0)
    server.step()
    server.step()
    assert seen.clients == [{}, {}]


def test_a_given_latency_stands_whatever_is_seen(server, seen):
    server.register("a", latency=40)
    server.register("a")  # says nothing new
    server.check_out("a")
    answer(server, "a", 0)
    server.step()
    server.register("a", latency=2.5)
    server.step()
    assert seen.clients == [{"a": 40.0}, {"a": 2.5}]


def test_otherwise_a_client_is_as_late_as_its_work_is_old_or_its_last_update_was(server, seen):
    for client in ("fast", "slow", "idle"):
        server.register(client)
    server.check_out("slow")
    for round_ in range(4):
        server.check_out("fast")
        answer(server, "fast", round_)
        if round_ == 3:
            answer(server, "slow", 0)
        server.step()
    server.check_out("slow")  # at work again, just begun: still as late as its last update
    server.step()
    assert [view["slow"] for view in seen.clients] == [0.0, 1.0, 2.0, 3.0, 3.0]
    assert all(view["fast"] == view["idle"] == 0.0 for view in seen.clients)
    answer(server, "slow", 4)  # faster now
    server.step()
    assert seen.clients[-1]["slow"] == 1.0


def test_of_several_updates_in_a_step_the_newest_counts(server, seen):
    server.register("a")
    for _ in range(4):
        server.step()
    for base in (3, 1, 2):
        answer(server, "a", base)
    server.step()
    assert seen.clients[-1] == {"a": 1.0}


def test_a_client_that_joins_later_counts_from_its_first_update_on(server, seen):
    server.register("a")
    server.check_out("stranger")
    server.step()
    answer(server, "stranger", 0)
    server.step()
    server.step()
    assert seen.clients == [{"a": 0.0}, *[{"a": 0.0, "stranger": 1.0}] * 2]


def test_registration_survives_save_and_load(server, tmp_path):
    server.register("a", latency=7)
    server.register("b")
    server.check_out("b")
    server.step()
    answer(server, "b", 0)
    server.step()
    server.save(tmp_path)
    seen = Seen()
    method = us.Method(us.Identity(), seen)
    us.Server.load(tmp_path, method=method).step()
    assert seen.clients == [{"a": 7.0, "b": 1.0}]


def test_a_checkpoint_from_before_there_was_a_registration_loads(server, seen):
    tree, versions = server.to_tree()
    del tree["clients"]
    restored = us.Server.from_tree(tree, versions, None, server.settings)
    restored.step()
    assert seen.clients == [{}]


def test_it_can_be_written_down():
    clients = Registration()
    clients.register("τ", None)
    clients.register("b", 3)
    again = Registration.from_json(json.loads(json.dumps(clients.to_json())))
    assert again.latencies(5, {"τ": 1}) == {"τ": 4.0, "b": 3.0}


@pytest.mark.parametrize("latency", [-1, float("nan"), float("inf")])
def test_refuses_a_latency_that_is_no_number_of_versions(server, latency):
    with pytest.raises(ConfigError, match="`latency` should be a number of versions"):
        server.register("a", latency=latency)


@pytest.mark.parametrize("client", ["", 7, None, "\ud800"])
def test_refuses_an_id_that_is_none(server, client):
    with pytest.raises(ConfigError, match="client_id"):
        server.register(client)
