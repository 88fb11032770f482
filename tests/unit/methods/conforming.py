"""What the conformance tests share: every method, and a small world with a step in it."""

import json
from collections.abc import Mapping

import torch
from torch import nn

import unstale as us
from unstale.methods import METHODS
from unstale.seeding import generator
from unstale.server.tree import take_tensors
from unstale.updates import TrainingTools

FEW = {"iterations": 3, "warm_iterations": 2, "max_loss": 1e9, "sparsity": 0}
CHEAP = {"inversion": FEW, "max_growth": 0}
OFF = {"enabled": False}
INPUTS = us.InputSpec(shape=(3,), classes=2)
# Comparators, likewise with few iterations and whatever they find.
QUICK = {"iterations": 3, "surrogate": {"max_growth": 0}}
_CONVERT = us.method("convert", **CHEAP).compensator
CASES = {name: us.method(name) for name in METHODS} | {
    "chain": us.Method(us.chain(us.Drop(5), us.FirstOrder(), us.PolynomialWeight()), us.FedAvg()),
    "reversed tiers": us.method("asyn_tiers", bounds=(0, 2), weighing="reversed"),
    "counted tiers": us.method("asyn_tiers", bounds=(0, 2), silent="counted"),
    "fedat by clients": us.method("fedat", bounds=(0, 2), weighing="clients"),
    # Few iterations, and any fit will do: here updates are noise, which no data explains.
    "convert": us.method("convert", **CHEAP),
    "convert all": us.method(
        "convert", uniqueness=OFF, switching=OFF, inversion={**FEW, "history": 3}, max_growth=0
    ),
    "unique first": us.Method(us.only_unique(us.switch_back(us.FirstOrder()))),
    "unique by the nearest": us.Method(us.only_unique(us.FirstOrder(), rule="nearest")),
    "convert by the nearest": us.method("convert", uniqueness={"rule": "nearest"}, **CHEAP),
    "convert without standing in": us.method("convert", stand_in=False, **CHEAP),
    "convert in groups": us.method("convert", group_size=2, **CHEAP),
    "convert by ensembles": us.method("convert", inversion={**FEW, "ensemble": 2}, max_growth=0),
    "generator": us.method("generator", hidden=8, noise=4, **QUICK),
    "dreams": us.method("dreams", **QUICK),
    "dreams, soft, with the residual": us.method(
        "dreams", iterations=3, surrogate={"soft_labels": True, "residual": True}
    ),
    "drop, then unique dreams": us.Method(
        us.chain(us.Drop(3), us.only_unique(us.method("dreams", **QUICK).compensator))
    ),
    "memory, then convert": us.Method(us.chain(us.Memory(), _CONVERT)),
    "convert, then memory": us.Method(us.chain(_CONVERT, us.Memory(), us.PolynomialWeight())),
    "memory in wrappers": us.Method(us.switch_back(us.only_unique(us.Memory()))),
    "drop, then memory": us.Method(us.chain(us.Drop(3), us.Memory())),
}
NOW = 6
# Who there is, and how late: for methods that make tiers of clients.
CLIENTS = {"a": 0.0, "b": 1.0, "c": 4.0}


def model_of(dtype=torch.float32):
    model = nn.Linear(3, 2).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator(0, "weights")))
    return model


def noise(model, *names, size=0.5):
    rng = generator(1, *names)
    return {
        n: size * torch.randn(p.shape, generator=rng, dtype=p.dtype)
        for n, p in model.named_parameters()
    }


class World:
    """Versions 0 to 6 of a small model, and a step of a method at version 6."""

    def __init__(self, method, dtype=torch.float32, optimizer=None):
        self.method, self.model = method, model_of(dtype)
        self.optimizer = optimizer
        self.past = {v: noise(self.model, "past", v) for v in range(NOW + 1)}
        self.state = us.ServerState(
            NOW, self.past[NOW], method.compensator.init(), method.aggregator.init()
        )

    def update(self, client, base, size=0.5):
        examples = {"a": 5, "b": 10, "c": 25}[client]
        return us.Update(client, base, noise(self.model, client, base, size=size), examples)

    def step(self, arrivals, past=None, state=None, absent=(), clients=CLIENTS):
        return us.step(
            self.state if state is None else state,
            arrivals,
            method=self.method,
            optimizer=self.optimizer,
            local=us.LocalSpec(),
            history=(self.past if past is None else past).get,
            rng=generator(0, "step"),
            kept_versions=self.past if past is None else past,
            tools=TrainingTools(self.model, INPUTS),
            absent=absent,
            clients=clients,
        )

    def arrivals(self, size=0.5):
        return [self.update(c, b, size) for c, b in [("a", 6), ("b", 5), ("c", 2), ("b", 3)]]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def image(state):
    """A state of any shape as text and tensors, to compare exactly."""
    tensors = {}
    return json.dumps(take_tensors(apart(state), tensors)), tensors


def apart(state):
    """The same state, in which no two places share a tensor."""
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, Mapping):
        return {key: apart(value) for key, value in state.items()}
    return [apart(value) for value in state] if isinstance(state, list | tuple) else state


def timeless(notes):
    """Notes without the seconds that something took."""
    return [
        (n.kind, n.client_id, n.base_version, {k: v for k, v in n.detail.items() if k != "seconds"})
        for n in notes
    ]


def same_state(one, other):
    return image(one)[0] == image(other)[0] and same(image(one)[1], image(other)[1])


def parts(state):
    return state.params, state.compensator, state.aggregator
