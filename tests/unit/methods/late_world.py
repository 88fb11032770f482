"""A world that is small and moves: versions of a tiny model, and clients with data of their own."""

import dataclasses
from dataclasses import dataclass, field

import torch
from torch import nn

import unstale as us
from unstale.methods.conversion import ConvertAll
from unstale.params import add, cosine_distance
from unstale.seeding import generator
from unstale.updates import TrainingTools

INPUTS = us.InputSpec(shape=(4,), classes=3, low=0.0, high=1.0)
LOCAL = us.LocalSpec(lr=0.5, momentum=0.5, steps=4)
_TOOLS = ("model", "inputs", "executor", "prefits")
# Centres of the three classes, far apart within the bounds.
CENTRES = torch.tensor([[0.9, 0.1, 0.2, 0.1], [0.1, 0.9, 0.1, 0.3], [0.2, 0.1, 0.9, 0.8]])


def model_of():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def samples(label, *names, count=12):
    noise = torch.randn(count, 4, generator=generator(0, "samples", label, *names))
    return (CENTRES[label] + 0.1 * noise).clamp(0, 1), torch.full((count,), label)


def changed(part, **changes):
    """Return a `ConvertAll` with other settings, whichever group they are in."""
    groups = {name: getattr(part, name) for name in ("inversion", "stand_in", "budget")}
    found = {}
    for key, value in changes.items():
        group = next((n for n, g in groups.items() if hasattr(g, key)), None)
        if group is None:
            found[key] = value
        else:
            groups[group] = dataclasses.replace(groups[group], **{key: value})
    return dataclasses.replace(part, **groups, **found)


def converting(**settings):
    """Return a `ConvertAll` with these settings, whichever group they are in.

    It uses estimates as they are; tests of calibration turn that on.
    """
    return changed(ConvertAll(calibration=us.Calibration(enabled=False)), **settings)


@dataclass
class LateWorld:
    """Trained on classes 0 and 1; the slow clients `s` and `t` hold class 2."""

    model: nn.Module = field(default_factory=model_of)
    weights: list = field(default_factory=list)

    def __post_init__(self):
        rng = generator(0, "weights")
        start = {
            n: 0.5 * torch.randn(p.shape, generator=rng) for n, p in self.model.named_parameters()
        }
        self.weights.append(start)
        for t in range(12):
            moves = [self.train(self.weights[-1], label, "fast", t) for label in (0, 1)]
            mean = {n: (moves[0][n] + moves[1][n]) / 2 for n in start}
            self.weights.append(add(self.weights[-1], mean))

    def train(self, weights, label, *names):
        return us.local_update(self.model, weights, *samples(label, *names), LOCAL)

    def update(self, client, base):
        """What a client sends that started from a version."""
        label = {"s": 2, "t": 2}.get(client, 0)
        return us.Update(client, base, self.train(self.weights[base], label, client), 12)

    def error(self, update, now):
        """The cosine distance to what the client would send at version `now`."""
        return cosine_distance(update.delta, self.update(update.client_id, now).delta)

    def view(self, now, **changes):
        past = dict(enumerate(self.weights))
        given = {
            "version": now,
            "params": self.weights[now],
            "history": past.get,
            "local": LOCAL,
            "rng": generator(0, "server", now),
            "kept_versions": frozenset(range(now + 1)),
        }
        tools = {"model": self.model, "inputs": INPUTS}
        tools |= {key: changes.pop(key) for key in _TOOLS if key in changes}
        return us.ServerView(**{**given, **changes}, tools=TrainingTools(**tools))
