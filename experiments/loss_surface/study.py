"""The loss around a model: of a client's data, of its surrogate, and of noise.

    python experiments/loss_surface/study.py --smoke --out result.json
    python experiments/loss_surface/study.py --data DIR --seeds 10 --out mnist_10.json

A plane through the base version of a stale update holds what the client's training made of it,
and the global model of τ versions later. The loss of each data set is measured on a grid there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from unstale import LocalSpec, local_update, models
from unstale.audit.federation import versions_of
from unstale.check import Client
from unstale.inversion import InputSpec, convert, preset
from unstale.params import Params, add, cosine_distance, flatten, params_of, subtract
from unstale.reproduce.study import StudyOptions, mean_of, run_study
from unstale.seeding import derive, generator
from unstale.sim.partition import DirichletLabels


@dataclass(frozen=True)
class Setting:
    """A scenario: who trains what, and when the update that is looked at was made."""

    model: str = "lenet"
    lr: float = 0.01
    clients: int = 10
    samples: int = 150
    begin: int = 10
    staleness: int = 20
    points: int = 13
    iterations: int = 150

    @property
    def local(self) -> LocalSpec:
        """The recipe that clients run: five full-batch steps."""
        return LocalSpec(lr=self.lr, momentum=0.5, epochs=5)


FULL = Setting()
SMOKE = Setting("digits", 0.2, 4, 40, begin=2, staleness=2, points=3)
# Where the grid lies: along the client's update in units of its length, and along the way of
# the global model in τ versions, in units of that.
ALONG, ACROSS = (-1.0, 3.0), (-0.25, 1.25)

TITLES = {
    "client": "client's data",
    "noise": "noise",
    "surrogate": "surrogate",
    "gaussian": "surrogate, Gaussian start",
}

Data = tuple[Tensor, Tensor]


def study(options: StudyOptions) -> dict[str, Any]:
    """Return the losses on the grid, and how far gradients and updates are from the client's."""
    setting, seed = SMOKE if options.smoke else FULL, options.seed
    whole = options.data("mnist")
    labels = whole.y_train.numpy()
    split = DirichletLabels(setting.clients, setting.samples, 0.1)
    parts = split.split(labels, None, derive(seed, "partition"))
    clients = [Client(whole.x_train[p], whole.y_train[p]) for p in parts]
    model = models.build(
        setting.model, whole.input_shape, whole.num_classes, seed=derive(seed, "model")
    )
    base, today = versions_of(
        model,
        clients,
        [setting.begin, setting.begin + setting.staleness],
        local=setting.local,
        start=params_of(model),
        seed=seed,
    )
    inputs = InputSpec(whole.input_shape, whole.num_classes, whole.low, whole.high)
    real = (clients[0].x, F.one_hot(clients[0].y, whole.num_classes).float())
    delta = updated(model, base, real, setting.local)
    sets = {"client": real, "noise": noise(inputs, len(real[0]), seed)}
    ways = {"surrogate": {}, "gaussian": {"start": "gaussian", "bounded": False}}
    for name, changes in ways.items():
        found = convert(
            model,
            base=base,
            current=today,
            delta=delta,
            local=setting.local,
            inputs=inputs,
            num_examples=len(real[0]),
            settings=preset("default", iterations=setting.iterations, history=1, **changes),
            seed=seed,
        )
        if found.surrogate is None:
            raise SystemExit(f"No {name} was found: {found.reason}")
        logits = found.surrogate.y_logits
        sets[name] = (found.surrogate.x, logits.softmax(1))
    along, across, at = plane(base, delta, today, setting.points)
    surfaces = {
        name: [[loss(model, at(a, b), one) for a in along] for b in across]
        for name, one in sets.items()
    }
    places = {"base": base, "today": today}
    return {
        "setting": {"samples": setting.samples, "staleness": setting.staleness},
        "along": along,
        "across": across,
        "surfaces": surfaces,
        "agreement": {
            name: agreement(surfaces["client"], surfaces[name], along, across)
            for name in sets
            if name != "client"
        },
        "errors": {
            place: {
                name: errors(model, params, real, one, setting.local)
                for name, one in sets.items()
                if name != "client"
            }
            for place, params in places.items()
        },
    }


def noise(inputs: InputSpec, samples: int, seed: int) -> Data:
    """Return samples of unit Gaussian noise, with random labels, soft as a surrogate's are."""
    rng = generator(seed, "noise data")
    x = torch.randn(samples, *inputs.shape, generator=rng)
    return x, torch.randn(samples, inputs.classes, generator=rng).softmax(1)


def updated(model: nn.Module, start: Params, data: Data, local: LocalSpec) -> Params:
    """Return what training on a data set changes."""
    with torch.no_grad():
        return local_update(model, start, *data, local)


def loss(model: nn.Module, params: Params, data: Data) -> float:
    """Return the mean cross-entropy."""
    with torch.no_grad():
        return round(
            float(F.cross_entropy(functional_call(model, dict(params), data[0]), data[1])), 5
        )


def plane(
    base: Params, delta: Params, today: Params, points: int
) -> tuple[list[float], list[float], Callable[[float, float], Params]]:
    """Return both coordinates of the grid, and the weights at a point.

    (0, 0) is `base`, (1, 0) is `base + delta`; (a, 1) has the part of `today - base` that is at
    right angles to `delta`.
    """
    way = subtract(today, base)
    share = float(flatten(way) @ flatten(delta) / (flatten(delta) @ flatten(delta)))
    aside = add(way, delta, -share)

    def at(a: float, b: float) -> Params:
        return add(add(base, delta, a), aside, b)

    along, across = (torch.linspace(*ends, points).tolist() for ends in (ALONG, ACROSS))
    return along, across, at


def agreement(
    one: Sequence[Sequence[float]],
    other: Sequence[Sequence[float]],
    along: Sequence[float],
    across: Sequence[float],
) -> dict[str, float]:
    """Return the correlation of two surfaces, near the base version and on the whole grid.

    Near is within the length of the update to both sides, and a quarter of the way of the model.

    Example:
        >>> agreement([[1, 2], [3, 4]], [[2, 4], [6, 8]], [0, 1], [0, 1])["whole"]
        1.0
    """
    near = [
        (i, j)
        for i, b in enumerate(across)
        for j, a in enumerate(along)
        if abs(a) <= 1 and abs(b) <= 0.25
    ]
    every = [(i, j) for i in range(len(across)) for j in range(len(along))]
    return {
        name: _correlation([one[i][j] for i, j in at], [other[i][j] for i, j in at])
        for name, at in {"near": near, "whole": every}.items()
    }


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    return round(float(torch.corrcoef(torch.tensor([one, other]))[0, 1]), 5)


def errors(
    model: nn.Module, params: Params, real: Data, data: Data, local: LocalSpec
) -> dict[str, float]:
    """Return the cosine distances of the gradient and of the whole update to the client's."""
    first = LocalSpec(lr=local.lr, steps=1)  # a step of plain SGD is the gradient
    found = {}
    for name, recipe in {"gradient": first, "update": local}.items():
        ours, theirs = (updated(model, params, one, recipe) for one in (data, real))
        found[name] = round(cosine_distance(ours, theirs), 5)
    return found


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw contours of each surface, with the base version, the update and today's model."""
    from matplotlib.figure import Figure

    surfaces = found["surfaces"]
    figure = Figure(figsize=(3.2 * len(surfaces), 3.4), dpi=100, layout="constrained")
    for axis, (name, rows) in zip(
        figure.subplots(1, len(surfaces), sharey=True), surfaces.items(), strict=True
    ):
        drawn = axis.contourf(found["along"], found["across"], rows, levels=16)
        axis.annotate("", (1, 0), (0, 0), arrowprops={"color": "white", "arrowstyle": "->"})
        axis.plot(0, 0, "o", color="white")
        axis.set_title(TITLES[name], fontsize="small")
        axis.set_xlabel("along the client's update")
        figure.colorbar(drawn, ax=axis)
    figure.axes[0].set_ylabel("along the global model's way")
    figure.savefig(path, metadata={"Software": None})


def figures(*words: str) -> list[float]:
    """Return means over the kept results, such as `errors/base/noise/gradient`."""
    return mean_of(Path(__file__).parent, "mnist_*.json", *words)


def table() -> str:
    """Return the table of the page: a data set down, distances and correlations across."""
    heads = {
        "errors/base/{}/gradient": "gradient, base",
        "errors/base/{}/update": "update, base",
        "errors/today/{}/gradient": "gradient, 20 later",
        "errors/today/{}/update": "update, 20 later",
        "agreement/{}/near": "surface, near",
        "agreement/{}/whole": "surface, whole",
    }
    lines = ["| data | " + " | ".join(heads.values()) + " |", "| --- |" + " --- |" * len(heads)]
    for name in ("surrogate", "gaussian", "noise"):
        cells = [f"{value:.3f}" for value in figures(*(head.format(name) for head in heads))]
        lines.append("| " + " | ".join([TITLES[name], *cells]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_study(__doc__, study, draw)
