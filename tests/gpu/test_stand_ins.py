"""Stand-ins and their checks on the GPU equal those on a CPU, and share the round's batch.

GPU and CPU sum in another order, so they are compared in double precision, as conversions
are in `test_conversions.py`, and from the same surrogates: their fits are compared there.
"""

import dataclasses
import importlib

import pytest
import torch

import unstale as us
from unstale.inversion import InputSpec, Inversion
from unstale.methods.conversion import ConvertAll
from unstale.params import norm, subtract, to_device
from unstale.updates import TrainingTools

STAND_IN = 1e-9  # of its norm: a short training, without a solver
CONVERTED = 1e-6
CLIENTS = ("c0", "c1", "c2", "c3")
BACK, NOW = 4, 20  # the version that c2's next update is from, and today's

FEW = Inversion(
    sparsity=0.0, iterations=2, warm_iterations=2, warm_min_iterations=2, max_samples=16,
    patience=0, restart_loss=0.0, max_loss=1e9,
)  # fmt: skip
CASES = {
    "LeNet": ("lenet", us.LocalSpec(lr=0.01, momentum=0.5, epochs=5)),
    "mini-batches": ("lenet", us.LocalSpec(lr=0.01, epochs=2, batch_size=6)),
    "1-D CNN": ("cnn1d", us.LocalSpec(lr=0.01, momentum=0.5, epochs=3)),
    "a model with a buffer": ("scaled", us.LocalSpec(lr=0.01, epochs=2, batch_size=6)),
    "ResNet-18": ("resnet18", us.LocalSpec(lr=0.01, momentum=0.5, steps=2)),
}


class Scene:
    """Four clients that are known; two are absent now, one is back, one is neither."""

    def __init__(self, problem, local):
        self.problem, self.local = problem, local
        self.method = ConvertAll(FEW, max_growth=0, calibration=us.Calibration(enabled=False))
        first = problem.requests("cpu", local, len(CLIENTS))
        self.known = [
            us.Update(client, version, request.delta, request.num_examples)
            for version, (client, request) in enumerate(zip(CLIENTS, first, strict=True))
        ]
        later = problem.requests("cpu", local, 1, seed=1)[0]
        self.back = us.Update("c2", BACK, later.delta, later.num_examples)
        bases = [*(request.base for request in first), later.base]
        self.past = dict(enumerate(bases)) | {NOW: problem.current("cpu")}
        state = self.apply("cpu", self.known, self.method.init()).state
        assert sorted(state["clients"]) == list(CLIENTS)
        entry = state["clients"]["c2"]
        # It was stood in for, so that its own update is compared with that.
        self.state = {**state, "clients": {**state["clients"], "c2": {**entry, "stood_in": 1}}}

    def apply(self, device, updates, state, absent=()):
        """Apply the method to updates at today's version on a device."""
        past = {v: to_device(p, device) for v, p in self.past.items()}
        view = us.ServerView(
            NOW,
            past[NOW],
            past.get,
            self.local,
            torch.Generator().manual_seed(0),
            frozenset(past),
            TrainingTools(
                self.problem.model_on(device), InputSpec(self.problem.shape, 5, 0.0, 1.0)
            ),
            tuple(absent),
        )
        sent = [dataclasses.replace(u, delta=to_device(u.delta, device)) for u in updates]
        return self.method.apply(sent, moved(state, device), view)

    def round(self, device, absent=("c0", "c1")):
        return self.apply(device, [self.back], self.state, absent)


def moved(state, device):
    """A state of any shape with its tensors on a device."""
    if isinstance(state, torch.Tensor):
        return state.to(device)
    if isinstance(state, dict):
        return {key: moved(value, device) for key, value in state.items()}
    return [moved(value, device) for value in state] if isinstance(state, list) else state


def near(found, wanted, bound):
    delta = {n: d.cpu() for n, d in found.items()}
    return norm(subtract(delta, wanted)) < bound * norm(wanted)


@pytest.fixture
def batches(monkeypatch):
    """Note how many surrogates are trained in one call, in the order of the calls."""
    seen = []
    converting = importlib.import_module("unstale.inversion.convert")  # also a function's name
    train = converting.train_surrogates

    def noted(model, trainings, at_once):
        seen.append(len(trainings))
        return train(model, trainings, at_once)

    monkeypatch.setattr(converting, "train_surrogates", noted)
    return seen


@pytest.mark.parametrize("name", CASES)
def test_they_equal_those_on_a_cpu(name, make_problem, device):
    model, local = CASES[name]
    scene = Scene(make_problem(model, dtype=torch.float64), local)
    found, wanted = scene.round(device), scene.round("cpu")
    keys = [("c2", BACK, False), ("c0", NOW, True), ("c1", NOW, True)]
    for outcome in (found, wanted):
        assert [(*u.key, u.stand_in) for u in outcome.updates] == keys
        assert [n.kind for n in outcome.notes] == ["converted", "stood_in", "stood_in", "checked"]
    for one, other in zip(found.updates, wanted.updates, strict=True):
        assert all(p.device.type == device.type for p in one.delta.values())
        assert near(one.delta, other.delta, STAND_IN if one.stand_in else CONVERTED)
        assert (one.weight, one.num_examples) == (other.weight, other.num_examples)
    for one, other in zip(found.notes[1:], wanted.notes[1:], strict=True):
        assert one.detail == pytest.approx(other.detail, rel=1e-9, abs=1e-9)
    checks = [outcome.state["clients"]["c2"]["checks"] for outcome in (found, wanted)]
    assert checks[0][0] == pytest.approx(checks[1][0], rel=1e-9)


def test_they_are_trained_in_the_batch_of_the_rounds_estimates(make_problem, device, batches):
    scene = Scene(make_problem("lenet"), us.LocalSpec(lr=0.01, epochs=3))
    batches.clear()
    scene.round(device)
    # Two stand-ins, a check, and c2's surrogate from today's weights and from those of its base.
    assert batches == [5]
    batches.clear()
    scene.apply(device, [], scene.state, CLIENTS)
    assert batches == [4]


def test_arrivals_change_by_rounding_only_whoever_is_absent(make_problem, device):
    scene = Scene(make_problem("lenet", dtype=torch.float64), us.LocalSpec(lr=0.01, epochs=3))
    alone = scene.round(device, absent=())
    beside = scene.round(device, absent=("c0", "c1", "c3"))
    assert [u.stand_in for u in alone.updates] == [False]
    assert [u.stand_in for u in beside.updates] == [False, True, True, True]
    assert near(beside.updates[0].delta, to_device(alone.updates[0].delta, "cpu"), STAND_IN)
