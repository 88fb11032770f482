"""Distillation from computed samples into the global model, by step: when does it begin to harm?

    python experiments/distillation/study.py --smoke --out result.json
    python experiments/distillation/study.py --data DIR --seeds 10 --out mnist_10.json

A federation trains a global model. One client's update is late. A generator is trained against
that client's model, without data, and today's global model is retrained on its samples with the
outputs of the client's model as labels. The test accuracy is measured all the way, which a
server cannot do: it has no test data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unstale import LocalSpec, local_update, models
from unstale.audit.federation import versions_of
from unstale.check import Client
from unstale.inversion import InputSpec
from unstale.methods import DataFreeGenerator
from unstale.methods.comparators.generator import generate, initial, train_generator
from unstale.methods.comparators.labels import guessed_shares, labels_by
from unstale.methods.comparators.teacher import Teacher
from unstale.params import Params, add, params_of
from unstale.reproduce.study import StudyOptions, mean_of, run_study
from unstale.reproduce.trained import accuracy_of
from unstale.seeding import derive, generator
from unstale.sim.partition import DirichletLabels


@dataclass(frozen=True)
class Setting:
    """A scenario: clients with mixes of classes; the first one is late."""

    model: str = "lenet"
    lr: float = 0.01
    samples: int = 150
    begin: int = 40
    staleness: int = 10
    whole: int = 300
    steps: tuple[int, ...] = (0, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300)

    @property
    def local(self) -> LocalSpec:
        """The recipe that clients run: five full-batch steps."""
        return LocalSpec(lr=self.lr, momentum=0.5, epochs=5)


FULL = Setting()
SMOKE = Setting("digits", 0.2, 40, 6, 2, whole=10, steps=(0, 2, 5, 10))
CLIENTS, SAMPLES = 10, 128
TESTED = 2000
TITLES = {
    "update": "client's update of five steps",
    "trained": "client's model trained long",
    "real data": "the client's own data",
}


def study(options: StudyOptions) -> dict[str, Any]:
    """Return test accuracies by step, for both clients' models."""
    setting, seed = SMOKE if options.smoke else FULL, options.seed
    whole = options.data("mnist")
    labels = whole.y_train.numpy()
    split = DirichletLabels(CLIENTS, setting.samples, 0.1)
    parts = split.split(labels, None, derive(seed, "partition"))
    clients = [Client(whole.x_train[p], whole.y_train[p]) for p in parts]
    late = clients[0]
    affected = int(late.y.mode().values)
    model = models.build(
        setting.model, whole.input_shape, whole.num_classes, seed=derive(seed, "model")
    )
    base, today = versions_of(
        model,
        clients[1:],
        [setting.begin, setting.begin + setting.staleness],
        local=setting.local,
        start=params_of(model),
        seed=seed,
    )
    inputs = InputSpec(whole.input_shape, whole.num_classes, whole.low, whole.high)
    test = whole.x_test[:TESTED], whole.y_test[:TESTED]
    curves = {}
    # The paper: such methods require that clients' updates are fully trained.
    for name, steps in {
        "update": setting.local.num_steps(len(late.x)),
        "trained": setting.whole,
    }.items():
        recipe = LocalSpec(lr=setting.local.lr, momentum=setting.local.momentum, steps=steps)
        with torch.no_grad():
            delta = local_update(model, base, late.x, late.y, recipe)
        teacher = Teacher.of(model, base, delta, setting.local)
        asked = labels_by(guessed_shares(delta, inputs.classes), SAMPLES)
        x = samples(teacher, asked, inputs, derive(seed, name))
        with torch.no_grad():
            soft = teacher(x).softmax(1)
        curves[name] = {
            "client's model": scores(teacher, *test, affected),
            **retrained(model, today, x, soft, setting, test, affected),
        }
    real = late.x, torch.eye(inputs.classes)[late.y]
    curves["real data"] = retrained(model, today, *real, setting, test, affected)
    return {"steps": list(setting.steps), "affected": affected, "curves": curves}


def samples(teacher: Teacher, labels: Tensor, inputs: InputSpec, seed: int) -> Tensor:
    """Return samples of a generator that was trained against the client's model."""
    settings = DataFreeGenerator()
    start = initial(settings, inputs, generator(seed, "weights"))
    weights, _ = train_generator(
        teacher, start, labels, inputs, settings, generator(seed, "generator")
    )
    z = torch.randn(len(labels), settings.noise, generator=generator(seed, "z"))
    return generate(weights, z, labels, inputs)


def retrained(
    model: nn.Module,
    today: Params,
    x: Tensor,
    soft: Tensor,
    setting: Setting,
    test: tuple[Tensor, Tensor],
    affected: int,
) -> dict[str, list[float]]:
    """Return accuracies on all classes and on the affected one, after each number of steps."""
    params, found = today, []
    for before, after in zip((0, *setting.steps), setting.steps, strict=False):
        if after > before:
            # Without momentum, so that a curve in pieces is one long training.
            recipe = LocalSpec(lr=setting.local.lr, steps=after - before)
            with torch.no_grad():
                params = add(params, local_update(model, params, x, soft, recipe))
        trained = Teacher.of(
            model, params, {n: torch.zeros_like(p) for n, p in params.items()}, setting.local
        )
        found.append(scores(trained, *test, affected))
    return {"all": [one["all"] for one in found], "affected": [one["affected"] for one in found]}


def scores(model: Teacher, x: Tensor, y: Tensor, affected: int) -> dict[str, float]:
    """Return the accuracy on all classes, and on the affected one."""
    own = y == affected
    return {"all": accuracy_of(model, x, y), "affected": accuracy_of(model, x[own], y[own])}


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw both accuracies by step, a panel for each source of labels and samples."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.8), dpi=100, layout="constrained")
    axes = figure.subplots(1, len(TITLES), sharey=True)
    for axis, (key, title) in zip(axes, TITLES.items(), strict=True):
        for name in ("all", "affected"):
            axis.plot(
                found["steps"],
                found["curves"][key][name],
                label=f"{name} class{'es' * (name == 'all')}",
            )
        axis.set_title(title, fontsize="small")
        axis.set_xlabel("step")
    axes[0].set_ylabel("test accuracy")
    axes[-1].legend(fontsize="small")
    figure.savefig(path, metadata={"Software": None})


def table() -> str:
    """Return the table of the page: accuracy on all classes, by step and source."""
    shown = [FULL.steps.index(step) for step in (0, 2, 10, 50, 100, 300)]
    lines = ["| step | " + " | ".join(str(FULL.steps[at]) for at in shown) + " |"]
    lines.append("| --- |" + " --- |" * len(shown))
    for key, title in TITLES.items():
        cells = [f"{v:.3f}" for v in figures(*(f"curves/{key}/all/{at}" for at in shown))]
        lines.append("| " + " | ".join([title, *cells]) + " |")
    return "\n".join(lines)


def figures(*words: str) -> list[float]:
    """Return means over the kept results, such as `curves/update/all/0`."""
    return mean_of(Path(__file__).parent, "mnist_*.json", *words)


if __name__ == "__main__":
    run_study(__doc__, study, draw)
