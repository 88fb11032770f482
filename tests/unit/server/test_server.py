"""The server around the step: tickets, repetitions, copies, and what it needs."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import CheckpointError, ConfigError, ModelError
from unstale.methods import Stateless


def ones(model, size=1.0):
    return {n: torch.full_like(p, size, requires_grad=False) for n, p in model.named_parameters()}


@pytest.fixture
def model():
    model = nn.Linear(2, 1)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    return model


def test_check_out_hands_out_the_current_model_and_keeps_its_version(model):
    server = us.Server(model)
    version, params = server.check_out("slow")
    assert version == 0
    for _ in range(5):
        fast, _ = server.check_out("fast")
        assert server.submit(us.Update("fast", fast, ones(model), 1)).accepted
        server.step()
    assert server.outstanding == [0]
    assert server.weights_of(0)["weight"].tolist() == [[0.0, 0.0]]
    assert [v for v in range(6) if server.weights_of(v) is not None] == [0, 5]
    assert server.submit(us.Update("slow", version, ones(model), 1)).accepted
    assert server.step().staleness == (5,)
    assert server.outstanding == []
    assert server.weights_of(0) is None
    assert params["weight"].tolist() == [[0.0, 0.0]]


def test_what_is_handed_out_or_in_is_a_copy(model):
    server = us.Server(model)
    _, params = server.check_out("a")
    delta = ones(model)
    server.submit(us.Update("a", 0, delta, 1))
    for tensors in (params, server.params, delta):
        for p in tensors.values():
            p.fill_(77.0)
    with torch.no_grad():
        model.bias.fill_(55.0)
    server.step()
    assert server.params["weight"].tolist() == [[1.0, 1.0]]
    assert server.params["bias"].tolist() == [1.0]


def test_release_frees_a_version_and_a_late_answer_is_still_taken(model):
    server = us.Server(model, method="first_order")
    server.check_out("a")
    server.check_out("b")
    server.step()
    server.check_out("a")
    server.release("a", 0)
    assert server.outstanding == [0, 1]
    server.release("b")
    server.release("nobody")
    server.step()
    assert server.outstanding == [1]
    assert server.weights_of(0) is None
    assert server.submit(us.Update("b", 0, ones(model), 1)).accepted
    report = server.step()
    assert (report.arrivals, report.count("fallback")) == (1, 1)


def test_a_repetition_is_refused_before_and_after_a_step_and_when_its_base_is_gone(model, tmp_path):
    server = us.Server(model, history=us.HistorySpec(max_versions=1))
    update = us.Update("a", 0, ones(model), 1)
    assert server.submit(update).accepted
    assert server.submit(update).code == "repeated"
    assert server.step().arrivals == 1
    for _ in range(3):
        assert server.submit(update).code == "repeated"
        server.step()
    assert server.weights_of(0) is None
    server.save(tmp_path)
    loaded = us.Server.load(tmp_path)
    assert loaded.submit(update).code == "repeated"
    assert loaded.params["bias"].tolist() == [1.0]
    server.check_out("a")  # of another version
    assert server.submit(update).code == "repeated"
    assert server.submit(us.Update("a", 4, ones(model), 1)).accepted
    assert server.submit(us.Update("b", 0, ones(model), 1)).accepted


def test_a_client_can_work_on_two_versions_at_once(model):
    server = us.Server(model)
    for _ in range(2):
        server.check_out("a")
        server.step()
    assert server.outstanding == [0, 1]
    for base in (1, 0):
        assert server.submit(us.Update("a", base, ones(model), 1)).accepted
    assert server.step().staleness == (2, 1)


@dataclass(frozen=True, slots=True)
class Noise(Stateless):
    def apply(self, updates, state, view):
        drawn = float(torch.rand((), generator=view.rng))
        return us.Outcome(tuple(updates), {"drawn": drawn})


def test_what_a_method_draws_depends_on_seed_and_version_alone(model, tmp_path):
    def draw(server, rounds):
        return [
            (server.step(), server.to_tree()[0]["compensator"]["drawn"])[1] for _ in range(rounds)
        ]

    whole = draw(us.Server(model, compensator=Noise(), seed=1), 4)
    assert len(set(whole)) == 4
    server = us.Server(model, compensator=Noise(), seed=1)
    server.submit(us.Update("a", 0, ones(model), 1))
    first = draw(server, 2)
    server.save(tmp_path)
    loaded = us.Server.load(tmp_path, method=us.Method(Noise()))
    assert first + draw(loaded, 2) == whole
    assert draw(us.Server(model, compensator=Noise(), seed=2), 1)[0] != whole[0]


def test_a_full_disk_in_a_step_leaves_everything_for_another_try(model, monkeypatch):
    server = us.Server(model, history=us.HistorySpec(memory_bytes=0))
    server.submit(us.Update("a", 0, ones(model), 1))
    server.submit(us.Update("a", 0, ones(model), 1))

    def full(path, content):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("unstale.server.history.write_whole", full)
        with pytest.raises(OSError, match="No space"):
            server.step()
    assert server.version == 0
    report = server.step()
    assert (report.version, report.arrivals, report.refused) == (1, 1, {"repeated": 1})
    assert server.params["bias"].tolist() == [1.0]


def test_the_method_comes_by_name_as_an_object_or_in_parts(model):
    assert us.Server(model).method == us.method("unweighted")
    assert us.Server(model, method="drop").method == us.method("drop")
    parts = us.Server(model, compensator=us.Drop(3), aggregator=us.Tiers()).method
    assert (parts.compensator, parts.aggregator) == (us.Drop(3), us.Tiers())
    assert us.Server(model, aggregator=us.Tiers()).method.compensator == us.Identity()
    with pytest.raises(ConfigError, match="not both"):
        us.Server(model, method="drop", compensator=us.Drop(3))


def test_refuses_models_and_clients_it_cannot_serve(model):
    with pytest.raises(ModelError):
        us.Server(nn.Embedding(2, 2, sparse=True))
    for name in ("", None, 7, "\ud800"):
        with pytest.raises(ConfigError, match="client_id"):
            us.Server(model).check_out(name)


def test_load_says_what_it_needs(model, tmp_path):
    def loss(outputs, targets):
        return outputs.sum()

    spec = us.LocalSpec(loss=loss, betas=(0.5, 0.6), lr=0.5)
    us.Server(model, local=spec).save(tmp_path)
    with pytest.raises(CheckpointError, match="local="):
        us.Server.load(tmp_path)
    assert us.Server.load(tmp_path, local=spec).local is spec
    with pytest.raises(CheckpointError, match="weight"):
        us.Server.load(tmp_path, nn.Linear(3, 1), local=spec)


def test_a_compensator_alone_is_a_method():
    given = us.Convert(inversion=us.Inversion(sparsity=0))
    for server in (us.Server(nn.Linear(2, 1), given), us.Server(nn.Linear(2, 1), method=given)):
        assert server.method == us.Method(given)
    with pytest.raises(ConfigError, match="or a compensator such as"):
        us.Server(nn.Linear(2, 1), us.Convert)
