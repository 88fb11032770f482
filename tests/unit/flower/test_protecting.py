"""The mod that protects updates on the device, on real messages of Flower."""

import base64

import numpy as np
import pytest
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from pretend_clients import honest, late_grid
from strategy_runs import start, strategy

import unstale as us
from unstale.errors import ConfigError
from unstale.flower import ClosePolicy, ProtectMod
from unstale.flower.messages import RecordNames, messages_to
from unstale.params import norm
from unstale.seeding import generator

pytestmark = pytest.mark.usefixtures("in_a_run")

BASE = {"w": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), "b": np.zeros(2, np.float32)}
MOVE = {"w": np.array([[0.5, -0.1], [0.0, 3.0]], np.float32), "b": np.array([0.2, 4.0], np.float32)}


def record(arrays):
    return ArrayRecord({name: Array(value) for name, value in arrays.items()})


def asked(kind="train", base=BASE):
    (message,) = messages_to(
        [7],
        kind,
        names=RecordNames(),
        arrays=record(base),
        config=ConfigRecord(),
        round=1,
        version=0,
    )
    return message


def context():
    return Context(run_id=1, node_id=7, node_config={}, state=RecordDict(), run_config={})


def answered(*mods, message=None, moved=MOVE, answer=None, metrics=None):
    """What leaves the device of a ClientApp with these mods."""
    app = ClientApp(mods=list(mods))

    def handle(message: Message, context: Context) -> Message:
        if answer is not None:
            return answer(message)
        weights = {n: a.numpy() for n, a in message.content["arrays"].items()}
        sent = record({n: np.asarray(w + moved[n]) for n, w in weights.items()})
        found = MetricRecord(metrics or {"num-examples": 10, "loss": 0.5})
        return Message(RecordDict({"arrays": sent, "metrics": found}), reply_to=message)

    app.train()(handle)
    app.evaluate()(handle)
    return app(message or asked(), context())


def change_of(reply):
    return {n: a.numpy() - BASE[n] for n, a in reply.content["arrays"].items()}


def test_less_leaves_the_device():
    found = change_of(answered(ProtectMod(us.Protection(sparsity=0.5))))
    assert np.allclose(found["w"], [[0.5, 0.0], [0.0, 3.0]])
    assert np.allclose(found["b"], [0.0, 4.0])
    assert (found["w"][0, 1], found["b"][0]) == (0, 0), "exactly nothing of the others"


def test_a_clipped_update_has_the_norm_that_is_allowed():
    found = change_of(answered(ProtectMod(us.Protection(clip=1.0))))
    vector = np.concatenate([found["w"].ravel(), found["b"]])
    whole = np.concatenate([MOVE["w"].ravel(), MOVE["b"]])
    assert np.linalg.norm(vector) == pytest.approx(1.0, rel=1e-5)
    assert np.allclose(vector, whole / np.linalg.norm(whole), atol=1e-6)


def test_noise_is_new_in_every_reply():
    mod = ProtectMod(us.Protection(noise_variance=1e-3))
    first, second = change_of(answered(mod)), change_of(answered(mod))
    noise = [one["w"] - MOVE["w"] for one in (first, second)]
    assert not np.allclose(*noise)
    assert 0 < np.abs(noise).max() < 0.5


def test_it_is_the_protection_of_the_simulator(monkeypatch):
    monkeypatch.setattr("secrets.randbits", lambda bits: 11)
    settings = us.Protection(sparsity=0.5, clip=2.0, noise_multiplier=0.1)
    found = change_of(answered(ProtectMod(settings)))
    delta = {n: torch.from_numpy(move.astype(np.float64)) for n, move in MOVE.items()}
    wanted = us.protect(delta, settings, generator(11, "protection"))
    for name, change in found.items():
        assert np.allclose(change, wanted[name].numpy(), atol=1e-5)


def test_metrics_leave_only_where_nothing_is_promised():
    kept = answered(ProtectMod(us.Protection(sparsity=0.5))).content["metrics"]
    assert dict(kept) == {"num-examples": 10, "loss": 0.5}
    private = us.Protection(clip=1.0, noise_multiplier=1.0)
    assert dict(answered(ProtectMod(private)).content["metrics"]) == {"num-examples": 10}
    more = ProtectMod(private, metrics=("num-examples", "loss"))
    assert "loss" in answered(more).content["metrics"]


def test_other_messages_and_no_protection_pass():
    settings = us.Protection(clip=1e-3, noise_multiplier=1.0)
    plain = change_of(answered())
    evaluated = change_of(answered(ProtectMod(settings), message=asked("evaluate")))
    nothing = change_of(answered(ProtectMod(us.Protection())))
    for found in (evaluated, nothing):
        assert all(np.array_equal(found[name], plain[name]) for name in plain)


def test_an_error_of_the_app_is_passed_on():
    reply = answered(
        ProtectMod(us.Protection(clip=1.0)),
        answer=lambda message: Message(Error(code=1, reason="no data"), reply_to=message),
    )
    assert reply.error.reason == "no data"


def sending(records):
    return lambda message: Message(RecordDict(records), reply_to=message)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (sending({}), "one record of arrays"),
        (sending({"a": record(BASE), "b": record(BASE)}), "one record of arrays"),
        (sending({"a": record({"w": BASE["w"]})}), "difference in 'b'"),
        (sending({"a": record({"0": BASE["w"], "1": BASE["b"]})}), "difference in"),
        (sending({"a": record({**BASE, "b": np.zeros(3, np.float32)})}), "difference in 'b'"),
    ],
)
def test_what_cannot_be_protected_is_not_sent(answer, said):
    with pytest.raises(ConfigError, match=said):
        answered(ProtectMod(us.Protection(clip=1.0)), answer=answer)


def test_whole_numbers_may_travel_but_not_change():
    mod = ProtectMod(us.Protection(clip=1.0, noise_multiplier=1.0))
    base = {**BASE, "steps": np.array(3), "scale": np.array(2.0, np.float32)}
    still = {**MOVE, "steps": np.array(0), "scale": np.array(0.0, np.float32)}
    same = answered(mod, message=asked(base=base), moved=still).content["arrays"]
    assert same["steps"].numpy() == 3
    assert same["scale"].numpy() != 2, "a number alone is an entry like others"
    with pytest.raises(ConfigError, match="'steps'"):
        answered(mod, message=asked(base=base), moved={**still, "steps": np.array(1)})


def test_an_update_that_is_not_finite_leaves_as_noise_alone():
    bad = {"w": np.full((2, 2), np.nan, np.float32), "b": MOVE["b"]}
    found = answered(ProtectMod(us.Protection(clip=1.0, noise_multiplier=1e-4)), moved=bad)
    assert all(np.abs(change).max() < 1e-2 for change in change_of(found).values())


def test_wrong_settings():
    with pytest.raises(ConfigError, match="should be a `Protection`"):
        ProtectMod(0.95)


def through(mod, client):
    """A client of the grid in memory that answers through a ClientApp with this mod."""
    app = ClientApp(mods=[mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(client(message), reply_to=message)

    return lambda message: app(message, context()).content


def test_the_server_gets_what_the_mod_let_through_of_late_replies_too():
    seen = []

    class Spy(us.Identity):
        def apply(self, updates, state, view):
            seen.extend((u.staleness(view.version), norm(u.delta)) for u in updates)
            return super().apply(updates, state, view)

    mod = ProtectMod(us.Protection(clip=0.05))
    grid = late_grid(
        {3: 1.0, 4: 3.5},
        clients=dict.fromkeys((3, 4), through(mod, honest)),
        close=ClosePolicy(deadline=1.5),
    )
    it = strategy(server=us.Method(compensator=Spy()))
    start(it, grid, rounds=6)
    assert {staleness > 0 for staleness, _ in seen} == {True, False}
    assert all(size == pytest.approx(0.05) for _, size in seen)


def test_an_encrypted_run_on_flower_is_resumed_with_its_key(tmp_path, monkeypatch):
    monkeypatch.setenv("THE_KEY", base64.b64encode(bytes(range(32))).decode())
    storage = us.Storage(checkpoints="encrypted", key="env:THE_KEY")
    settings = us.ServerSettings(storage=storage)
    start(strategy(tmp_path, settings), late_grid({3: 1.0, 4: 1.0}), rounds=2)
    written = [
        p for kind in ("checkpoints", "journal") for p in (tmp_path / "run" / kind).iterdir()
    ]
    assert {p.suffix for p in written if p.is_file()} == {".json", ".sealed"}
    with pytest.raises(ConfigError, match="since it is encrypted"):
        start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}), rounds=4, resume=True)
    again = strategy(tmp_path, settings)
    start(again, late_grid({3: 1.0, 4: 1.0}), rounds=4, resume=True)
    whole = strategy()
    start(whole, late_grid({3: 1.0, 4: 1.0}), rounds=4)
    assert torch.equal(again.server.params["weight"], whole.server.params["weight"])
