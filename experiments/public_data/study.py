"""Samples computed from a model with the help of public data: does it matter which?

    python experiments/public_data/study.py --smoke --out result.json
    python experiments/public_data/study.py --data DIR --seeds 10 --out images_10.json

A generator is trained on public images. Its latents are then optimised until a model that was
trained on private data classifies the images as wanted. Private are five classes of a data set;
public are the other five of the same set, or images of another kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from vae import Coder, Recipe, train_coder

from unstale import LocalSpec
from unstale.data.blended import LUMA
from unstale.methods.comparators.teacher import Teacher
from unstale.reproduce.images import as_levels, draw_rows
from unstale.reproduce.study import StudyOptions, mean_of, run_study
from unstale.reproduce.trained import accuracy_of, trained_model
from unstale.seeding import derive, generator

TRAINED, PUBLIC, EACH = 4000, 4000, 20
TRAINING = LocalSpec(lr=0.05, momentum=0.9, epochs=4, batch_size=50)
STEPS, LR, PRIOR = 150, 0.05, 0.01
PRIVATE = 5  # classes 0 to 4 are private, the others of that set public


@dataclass(frozen=True)
class Images:
    """Images with values from 0 to 1, with their classes."""

    x: Tensor
    y: Tensor

    def of(self, private: bool) -> "Images":
        """Return those of private or of public classes."""
        at = (self.y < PRIVATE) == private
        return Images(self.x[at], self.y[at])

    def first(self, count: int) -> "Images":
        """Return so many, from the beginning."""
        return Images(self.x[:count], self.y[:count])


def sets(options: StudyOptions) -> dict[str, Images]:
    """Return all sets of images by name; digits, their negative and noise in a smoke run."""
    rng = generator(options.seed, "order")

    def shuffled(x: Tensor, y: Tensor) -> Images:
        at = torch.randperm(len(y), generator=rng)
        return Images(x[at], y[at])

    if options.smoke:
        whole = options.data("digits")
        noise = torch.rand(whole.x_train.shape, generator=rng)
        return {
            "mnist": shuffled(whole.x_train, whole.y_train),
            "fashion_mnist": shuffled(1 - whole.x_train, whole.y_train),
            "cifar10": shuffled(noise, whole.y_train),
        }
    found = {}
    for name in ("mnist", "fashion_mnist", "cifar10"):
        whole = options.data(name)
        x = (whole.x_train - whole.low) / (whole.high - whole.low)
        if len(whole.input_shape) == 3 and whole.input_shape[0] == 3:
            x = F.interpolate(
                (x * torch.tensor(LUMA)[:, None, None]).sum(1, keepdim=True), (28, 28), mode="area"
            )
        found[name] = shuffled(x, whole.y_train)
    return found


def study(options: StudyOptions) -> dict[str, Any]:
    """Return measures and pictures for each private and each public set."""
    images = sets(options)
    recipe = Recipe(epochs=2) if options.smoke else Recipe()
    coders = {
        name: train_coder(one.of(private=False).first(PUBLIC).x, recipe, derive(options.seed, name))
        for name, one in images.items()
    }
    measures: dict[str, Any] = {}
    pictures: dict[str, Any] = {}
    for name in ("mnist", "fashion_mnist"):
        private = images[name].of(private=True)
        half = len(private.y) // 2
        mine = private.first(min(TRAINED, half))
        others = Images(private.x[half:], private.y[half:]).first(TRAINED)
        models = {"teacher": "digits" if options.smoke else "lenet", "judge": "mlp"}
        teacher, judge = (
            trained_model(models[role], one.x, one.y, PRIVATE, TRAINING, derive(options.seed, role))
            for role, one in (("teacher", mine), ("judge", others))
        )
        labels = torch.arange(PRIVATE).repeat_interleave(EACH)
        held = torch.cat([others.x[others.y == k][:EACH] for k in range(PRIVATE)])
        made = {"real": held} | {
            f"from {public}": computed(teacher, coder, labels, derive(options.seed, name, public))
            for public, coder in coders.items()
        }
        measures[name] = {key: measured(x, labels, teacher, judge, mine) for key, x in made.items()}
        pictures |= {
            f"{name}: {key}": as_levels(x[:: EACH // 2], 0.0, 1.0) for key, x in made.items()
        }
    shape = list(images["mnist"].x.shape[1:])
    return {"shape": shape, "measures": measures, "pictures": pictures}


def computed(teacher: Teacher, coder: Coder, labels: Tensor, seed: int) -> Tensor:
    """Return the generator's images that the teacher classifies as `labels`.

    Latents are found by gradient descent on the teacher's loss, with a penalty on their square:
    the generator was trained for latents of unit variance.
    """
    latent = coder.decoder[0].in_features
    z = torch.randn(len(labels), latent, generator=generator(seed, "latents")).requires_grad_()
    optimizer = torch.optim.Adam([z], lr=LR)
    for _ in range(STEPS):
        loss = teacher.loss(coder.decode(z), labels) + PRIOR * z.square().mean()
        (z.grad,) = torch.autograd.grad(loss, [z])
        optimizer.step()
    return coder.decode(z.detach())


def measured(
    x: Tensor, labels: Tensor, teacher: Teacher, judge: Teacher, mine: Images
) -> dict[str, float]:
    """Return how models classify images, and how far the nearest private image of the class is."""
    nearest = [
        torch.cdist(x[labels == k].flatten(1), mine.x[mine.y == k].flatten(1)).amin(1)
        for k in range(PRIVATE)
    ]
    size = x[0].numel()
    return {
        "teacher": accuracy_of(teacher, x, labels),
        "judge": accuracy_of(judge, x, labels),
        "nearest_mse": round(float((torch.cat(nearest).square() / size).mean()), 5),
    }


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw two samples of each class, a row for each private and public set."""
    draw_rows(found["pictures"], found["shape"], path)


def figures(*words: str) -> list[float]:
    """Return means over the kept results, such as `measures/mnist/from cifar10/judge`."""
    return mean_of(Path(__file__).parent, "images_*.json", *words)


def table() -> str:
    """Return the table of the page: the judge's accuracy and the nearest private image."""
    rows = {"real": "real samples that no model has seen"}
    rows |= {f"from {p}": f"public: {w}" for p, w in PUBLIC_WORDS.items()}
    lines = [
        "| computed with | digits: judge | digits: nearest | clothes: judge | clothes: nearest |",
        "| --- | --- | --- | --- | --- |",
    ]
    for key, words in rows.items():
        at = [f"measures/{p}/{key}/{m}" for p in ("mnist", "fashion_mnist") for m in MEASURES]
        cells = [f"{v:.3f}" for v in figures(*at)]
        lines.append("| " + " | ".join([words, *cells]) + " |")
    return "\n".join(lines)


MEASURES = ("judge", "nearest_mse")
PUBLIC_WORDS = {
    "mnist": "digits 5 to 9",
    "fashion_mnist": "clothes, classes 5 to 9",
    "cifar10": "photographs in grey, classes 5 to 9",
}


if __name__ == "__main__":
    run_study(__doc__, study, draw)
