"""A small server whose fits wait until they are let go."""

import dataclasses
import threading

import torch
from torch import nn

import unstale as us
from unstale.methods.conversion import ConvertAll
from unstale.seeding import generator

LOCAL = us.LocalSpec(lr=0.5, steps=3)
INPUTS = us.InputSpec((3,), 2, 0.0, 1.0)
QUICK = us.Inversion(sparsity=0, iterations=4, warm_iterations=2, max_loss=10.0)
FEW = ConvertAll(QUICK, max_growth=0, calibration=us.Calibration(enabled=False))


class Gated(us.Inline):
    """An executor whose work waits until it is let go, and may fail."""

    def __init__(self):
        super().__init__()
        self.open, self.begun = threading.Event(), threading.Event()
        self.seen, self.error = [], None

    def map(self, work, shared, items):
        self.begun.set()
        assert self.open.wait(600)
        self.seen += [asked.request for part in items for asked in part]
        if self.error is not None:
            raise self.error
        return super().map(work, shared, items)


def model_of():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(0.5 * torch.randn(p.shape, generator=generator(i, "weights")))
    return model


def server_of(background, compensator=FEW, **rest):
    return us.Server(
        model_of(), compensator=compensator, local=LOCAL, inputs=INPUTS, background=background,
        seed=3, **rest,
    )  # fmt: skip


def work(server, client):
    """What a client sends that checks out now."""
    version, weights = server.check_out(client)
    x = torch.rand(8, 3, generator=generator(0, client))
    y = torch.full((8,), 1 if client.startswith("s") else 0)
    return us.Update(client, version, us.local_update(server.model, weights, x, y, LOCAL), 8)


def step(server):
    """A round of one fast client."""
    assert server.submit(work(server, "f")).accepted
    return server.step()


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def kinds(report, client="s"):
    return [(n.kind, n.base_version) for n in report.notes if n.client_id == client]


def few(**changes):
    """Settings of `convert` by name, as `FEW` has them; changes are the inversion's."""
    return {"inversion": dataclasses.replace(QUICK, **changes), "max_growth": 0}
