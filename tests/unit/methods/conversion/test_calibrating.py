"""Calibration in a whole server and on real data: saved and resumed, and early enough to help."""

import pytest
import torch
from late_world import INPUTS, LOCAL, LateWorld, samples
from torch import nn

import unstale as us
from unstale import data
from unstale.check import Client, Trial, run_trial
from unstale.methods.conversion import ConvertAll
from unstale.seeding import generator
from unstale.server.tree import take_tensors

FEW = {"iterations": 6, "warm_iterations": 3, "max_loss": 10.0, "history": 2}
OFF = {"enabled": False}


def serve(world, method, rounds=16, folder=None):
    """Run a server whose client `s` answers five rounds late; with a folder, reload it each round.

    Returns:
        The lines without their seconds, the last weights, and the last state as text and tensors.
    """
    model = world.model
    model.load_state_dict(world.weights[0])
    server = us.Server(model, method=method, seed=3, local=LOCAL, inputs=INPUTS)
    lines, work = [], []
    for now in range(rounds):
        for client in ("f", "g", "h", *(["s"] if now % 2 == 0 else [])):
            version, params = server.check_out(client)
            label = {"s": 2, "f": 0, "g": 1}.get(client, 1)
            delta = us.local_update(model, params, *samples(label, client), LOCAL)
            work.append((now + (5 if client == "s" else 0), client, version, delta))
        for due, client, version, delta in sorted(work, key=lambda w: w[:3]):
            if due == now:
                assert server.submit(us.Update(client, version, delta, 12)).accepted
        if folder is not None:
            server.save(folder)
            server = us.Server.load(folder, model)
        line = server.step().to_json()
        lines.append({k: v for k, v in line.items() if k != "seconds"})
    tensors = {}
    text = take_tensors(server.to_tree()[0]["compensator"], tensors)
    return lines, server.params, text, tensors


def method_of(**settings):
    return us.method("convert", inversion=FEW, uniqueness=OFF, max_growth=0, **settings)


def test_a_server_that_is_saved_and_loaded_in_every_round_learns_the_same(tmp_path):
    method = method_of(calibration={"renew": 10, "cost": 0.5})
    whole = serve(LateWorld(), method)
    pieces = serve(LateWorld(), method, folder=tmp_path)
    assert whole[0] == pieces[0]
    assert whole[2] == pieces[2]
    for one, other in ((whole[1], pieces[1]), (whole[3], pieces[3])):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[n], other[n]) for n in one)
    notes = [line["notes"] for line in whole[0]]
    assert sum(found.get("probed", 0) for found in notes) > 4, "fitted anew"
    told = [one for line in whole[0] for one in line.get("calibrated", ())]
    assert {one["late"] for one in told} == {True, False}
    shares = [one["share"] for line in whole[0] for one in line.get("converted", ())]
    assert len(set(shares)) > 2


def test_off_leaves_no_trace():
    lines, _, text, _ = serve(LateWorld(), method_of(calibration=False))
    assert "calibration" not in str(text)
    assert not any(line.get("calibrated") for line in lines)
    assert {kind for line in lines for kind in line["notes"]} <= {
        "converted", "measured", "switched", "stood_in", "checked", "fallback"
    }  # fmt: skip
    assert all("share" not in one for line in lines for one in line.get("converted", ()))
    paper = us.method("convert", preset="paper").compensator
    assert not paper.calibration.enabled


class Listening:
    """A compensator that remembers the notes of each version."""

    lookback = 0

    def __init__(self, inner):
        self.inner, self.notes = inner, {}

    def init(self):
        return self.inner.init()

    def apply(self, updates, state, view):
        outcome = self.inner.apply(updates, state, view)
        self.notes[view.version] = outcome.notes
        return outcome


@pytest.fixture(scope="module")
def digits():
    """Clients of digits with a few classes each, and what a trial needs besides."""
    found = data.load("digits")
    rng = generator(0, "clients")
    clients = []
    for _ in range(12):
        likely = torch.rand(10, generator=rng).pow(6)[found.y_train]
        chosen = torch.multinomial(likely, 30, generator=rng)
        clients.append(Client(found.x_train[chosen], found.y_train[chosen]))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    start = {
        n: 0.2 * (torch.rand(p.shape, generator=rng) - 0.5) for n, p in model.named_parameters()
    }
    return model, clients, start


def test_on_digits_it_knows_before_the_first_stale_update_arrives(digits):
    model, clients, start = digits
    inversion = us.Inversion(iterations=60, warm_iterations=15)
    learning = Listening(ConvertAll(inversion))
    plain = ConvertAll(inversion, calibration=us.Calibration(enabled=False))
    trial = Trial(slow=(0, 1, 2), staleness=15, begin=8, arrivals=2, every=4, fresh=6)
    measured = run_trial(
        model, clients, trial, {"on": learning, "off": plain},
        local=us.LocalSpec(lr=0.2, momentum=0.5, epochs=5),
        inputs=us.InputSpec(shape=(1, 8, 8), classes=10, low=0.0, high=1.0),
        start=start,
    )  # fmt: skip
    notes = [(v, n) for v, found in learning.notes.items() for n in found]
    early = [n for v, n in notes if n.kind == "calibrated" and v < 23]
    assert len(early) >= 10
    assert any(8 <= n.detail["lag"] <= 22 for n in early), "at lags that matter"
    assert sum(n.kind == "probed" for _, n in notes) <= 4 + 6 // 4
    stale = sum(m.stale.cosine for m in measured if m.label == "on")
    used = {
        label: sum(m.used.cosine for m in measured if m.label == label) for label in ("on", "off")
    }
    # These estimates are good, some of the probes' are not: it trusts them, but not blindly.
    assert used["off"] < 0.5 * stale
    assert used["on"] < 0.5 * stale
    shares = [n.detail["share"] for _, n in notes if n.kind == "converted"]
    assert all(0.3 < share < 1 for share in shares)
