"""Conversions whose quality a test decides: fits find nothing, estimates are made up."""

import torch
from late_world import INPUTS, converting

import unstale as us
from unstale.inversion import Conversion, Fit, Surrogate
from unstale.methods.conversion import convert_all
from unstale.params import norm
from unstale.seeding import generator

LEARNING = us.Calibration(renew=10)
# Without what a surrogate does not explain, an estimate is what its training changes.
PLAIN = converting(residual=False, history=1, calibration=LEARNING)


class Pretended:
    """Replaces fits and trainings of `ConvertAll`; a surrogate only tells whose it is.

    Args:
        monkeypatch: Puts things back.
        world: Where clients train.
        estimate: What training a client's surrogate from some weights changes, from the client,
            the version of the weights and the true update.
    """

    def __init__(self, monkeypatch, world, estimate):
        self.world, self.estimate = world, estimate
        self.asked = []
        self.trained = 0
        self._clients = []
        self._of_delta = {}
        self._of_weights = {id(w): v for v, w in enumerate(world.weights)}
        monkeypatch.setattr(convert_all, "fit_parallel", self._fit)
        monkeypatch.setattr(convert_all, "estimate_with", self._train)

    def update(self, client, base):
        made = self.world.update(client, base)
        self._of_delta[id(made.delta)] = (client, made)  # kept, so that the id stays its own
        return made

    def _fit(self, requests, *_):
        clients = [self._of_delta[id(r.delta)][0] for r in requests]
        self.asked.append(clients)
        return [Fit(self._named(client), 0.01, (0.01,), 0.0) for client in clients]

    def _named(self, client):
        if client not in self._clients:
            self._clients.append(client)
        x = torch.full((16, *INPUTS.shape), float(self._clients.index(client)))
        return Surrogate(x, torch.zeros(16, INPUTS.classes))

    def _train(self, model, requests, fits, others, *, current, **_):
        self.trained += len(others)
        done = [self._change(fit.surrogate, current) for fit in fits]
        conversions = [
            Conversion(delta, fit.surrogate, 0.01, (0.01,), 0.0, ok=True)
            for delta, fit in zip(done, fits, strict=True)
        ]
        return conversions, [self._change(t.surrogate, t.start) for t in others]

    def _change(self, surrogate, weights):
        client = self._clients[int(surrogate.x.flatten()[0])]
        version = self._of_weights[id(weights)]
        return self.estimate(client, version, self.world.update(client, version).delta)


def exact(client, version, truth):
    return truth


def worthless(client, version, truth):
    """Noise of the right size."""
    rng = generator(0, "worthless", client, version)
    noise = {n: torch.randn(p.shape, generator=rng) for n, p in truth.items()}
    return {n: p * (norm(truth) / norm(noise)) for n, p in noise.items()}
