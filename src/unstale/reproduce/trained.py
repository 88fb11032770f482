"""Models that studies look at: trained on data that lie in one place, without a federation."""

import torch
from torch import Tensor

from unstale import models
from unstale.methods.comparators.teacher import Teacher
from unstale.params import params_of
from unstale.seeding import derive, generator
from unstale.training.local import local_update
from unstale.training.spec import LocalSpec


def trained_model(
    name: str, x: Tensor, y: Tensor, classes: int, recipe: LocalSpec, seed: int
) -> Teacher:
    """Return a model by name that was trained on all of the data.

    Args:
        name: A registered model.
        x: Inputs `[samples, ...]`.
        y: Class indices.
        classes: The number of classes.
        recipe: Optimizer, length and batches of the training.
        seed: Seeds the first weights and the batches.

    Example:
        >>> x, y = torch.eye(4), torch.tensor([0, 1, 0, 1])
        >>> recipe = LocalSpec(lr=0.5, epochs=100)
        >>> accuracy_of(trained_model("mlp", x, y, 2, recipe, seed=0), x, y)
        1.0
    """
    model = models.build(name, tuple(x.shape[1:]), classes, seed=derive(seed, "model")).to(x.device)
    start = params_of(model)
    with torch.no_grad():
        delta = local_update(model, start, x, y, recipe, generator(seed, "training"))
    return Teacher.of(model, start, delta, recipe)


@torch.no_grad()
def accuracy_of(model: Teacher, x: Tensor, y: Tensor) -> float:
    """Return the share of inputs that a model classifies as labelled."""
    return round(float((model(x).argmax(1) == y).double().mean()), 4)
