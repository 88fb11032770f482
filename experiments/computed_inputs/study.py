"""Inputs computed from a model: their mean by class, and how alike those of one class are.

    python experiments/computed_inputs/study.py --smoke --out result.json
    python experiments/computed_inputs/study.py --data DIR --seeds 10 --out mnist_10.json

A model is trained on real data. Both sources of the comparators then compute samples from it:
optimised inputs (`dreams`) and a generator (`generator`), with the defaults of these methods.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from unstale import LocalSpec
from unstale.inversion import InputSpec
from unstale.methods import DataFreeGenerator, DreamedInputs
from unstale.methods.comparators.dreams import dream
from unstale.methods.comparators.generator import generate, initial, train_generator
from unstale.methods.comparators.teacher import Teacher
from unstale.reproduce.images import as_levels, draw_rows
from unstale.reproduce.study import StudyOptions, mean_of, run_study
from unstale.reproduce.trained import accuracy_of, trained_model
from unstale.seeding import derive, generator

EACH = 20  # samples of each class
TRAINED = 6000
RECIPE = LocalSpec(lr=0.05, momentum=0.9, epochs=3, batch_size=50)
SHOWN = 5  # the class of which single samples are shown, as in the paper


def study(options: StudyOptions) -> dict[str, Any]:
    """Return pictures and measures of real and computed samples."""
    whole = options.data("mnist")
    inputs = InputSpec(whole.input_shape, whole.num_classes, whole.low, whole.high)
    order = torch.randperm(len(whole.y_train), generator=generator(options.seed, "samples"))
    mine, others = order[:TRAINED], order[TRAINED : 2 * TRAINED]
    if options.smoke:  # digits are few
        mine, others = order[::2], order[1::2]
    # The judge, another model of other data, says what samples look like to somebody else.
    names = {"teacher": "digits" if options.smoke else "lenet", "judge": "mlp"}
    teacher, judge = (
        trained_model(
            names[role],
            whole.x_train[at],
            whole.y_train[at],
            inputs.classes,
            RECIPE,
            derive(options.seed, role),
        )
        for role, at in (("teacher", mine), ("judge", others))
    )
    labels = torch.arange(inputs.classes).repeat_interleave(EACH)
    sources = {
        "real": real(whole.x_train[others], whole.y_train[others], labels),
        "dreams": dreamed(teacher, labels, inputs, options.seed),
        "generator": generated(teacher, labels, inputs, options.seed),
    }
    means = class_means(whole.x_train[mine], whole.y_train[mine], inputs.classes)
    return {
        "shape": list(inputs.shape),
        "accuracy": {
            "teacher": accuracy_of(teacher, whole.x_test, whole.y_test),
            "judge": accuracy_of(judge, whole.x_test, whole.y_test),
        },
        "measures": {
            name: {
                "teacher": accuracy_of(teacher, x, labels),
                "judge": accuracy_of(judge, x, labels),
                "alike": alike(x, labels),
                **against(class_means(x, labels, inputs.classes), means),
            }
            for name, x in sources.items()
        },
        "means": {
            name: as_levels(stretched(class_means(x, labels, inputs.classes)), 0.0, 1.0)
            for name, x in sources.items()
        },
        "samples": {
            name: as_levels(x[labels == SHOWN][:10], whole.low, whole.high)
            for name, x in sources.items()
        },
    }


def real(x: Tensor, y: Tensor, labels: Tensor) -> Tensor:
    """Return real samples with the given labels."""
    return torch.cat([x[y == k][: int((labels == k).sum())] for k in labels.unique()])


def dreamed(teacher: Teacher, labels: Tensor, inputs: InputSpec, seed: int) -> Tensor:
    """Return inputs that were optimised until the teacher classifies them as `labels`."""
    settings = DreamedInputs()
    drawn = torch.randn(len(labels), *inputs.shape, generator=generator(seed, "dreams"))
    start = inputs.clamp(inputs.middle + settings.noise * inputs.unit * drawn)
    return dream(teacher, start, labels, inputs, settings, generator(seed, "jitter"))[0]


def generated(teacher: Teacher, labels: Tensor, inputs: InputSpec, seed: int) -> Tensor:
    """Return samples of a generator that was trained against the teacher."""
    settings = DataFreeGenerator()
    start = initial(settings, inputs, generator(seed, "weights"))
    weights, _ = train_generator(
        teacher, start, labels, inputs, settings, generator(seed, "generator")
    )
    z = torch.randn(len(labels), settings.noise, generator=generator(seed, "z"))
    return generate(weights, z, labels, inputs)


def class_means(x: Tensor, y: Tensor, classes: int) -> Tensor:
    """Return the mean of each class."""
    return torch.stack([x[y == k].mean(0) for k in range(classes)])


def stretched(x: Tensor) -> Tensor:
    """Return images from their darkest to their lightest value; means are pale."""
    flat = x.flatten(1)
    low, high = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    return ((flat - low) / (high - low).clamp_min(1e-9)).view_as(x)


def alike(x: Tensor, y: Tensor) -> float:
    """Return the mean correlation between two samples of one class; 1 if they are all the same.

    Example:
        >>> x = torch.tensor([[0.0, 1, 0], [0, 2, 0], [1, 0, 1], [2, 0, 2]])
        >>> alike(x, torch.tensor([0, 0, 1, 1]))
        1.0
    """
    found = []
    for k in y.unique():
        c = torch.corrcoef(x[y == k].flatten(1))
        found.append(float((c.sum() - c.trace()) / (len(c) * (len(c) - 1))))
    return round(fmean(found), 4)


def against(ours: Tensor, theirs: Tensor) -> dict[str, float]:
    """Return how means correlate with the real ones of their class, and how often best of all.

    Example:
        >>> one = torch.tensor([[0.0, 1, 0], [1, 0, 0]])
        >>> against(one, one)
        {'mean_correlation': 1.0, 'matched': 1.0}
    """
    count = len(ours)
    both = torch.corrcoef(torch.cat([ours, theirs]).flatten(1))[:count, count:]
    matched = (both.argmax(1) == torch.arange(count)).float().mean()
    return {
        "mean_correlation": round(float(both.diagonal().mean()), 4),
        "matched": round(float(matched), 4),
    }


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw the means of all classes by source, then samples of one class by source."""
    rows = {f"{name}: means": images for name, images in found["means"].items()}
    rows |= {f"{name}: class {SHOWN}": images for name, images in found["samples"].items()}
    draw_rows(rows, found["shape"], path)


def figures(*words: str) -> list[float]:
    """Return means over the kept results, such as `measures/dreams/alike`."""
    return mean_of(Path(__file__).parent, "mnist_*.json", *words)


def table() -> str:
    """Return the table of the page: a source down, a measure across."""
    heads = {
        "teacher": "wanted class: the model itself",
        "judge": "another model",
        "alike": "alike",
        "mean_correlation": "mean: correlation",
        "matched": "mean: highest",
    }
    lines = ["| samples | " + " | ".join(heads.values()) + " |", "| --- |" + " --- |" * len(heads)]
    for source in ("real", "dreams", "generator"):
        cells = [f"{v:.3f}" for v in figures(*(f"measures/{source}/{key}" for key in heads))]
        lines.append("| " + " | ".join([source, *cells]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_study(__doc__, study, draw)
