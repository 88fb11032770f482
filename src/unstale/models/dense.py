"""Multilayer perceptrons: the 3-layer MLP, and the small one for the digits data set."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from unstale.models.registry import check_counts, check_shape


def mlp(
    input_shape: tuple[int, ...], num_classes: int, *, hidden: Sequence[int] = (256, 128)
) -> nn.Module:
    """Build an MLP over flattened inputs, with ReLU between its linear layers.

    Args:
        input_shape: Any shape.
        num_classes: Number of logits.
        hidden: Sizes of the hidden layers; two of them give a 3-layer MLP.
    """
    sizes = (math.prod(input_shape), *check_counts("hidden of model 'mlp'", hidden), num_classes)
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def digits(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Build the 64-64-classes MLP for scikit-learn's digits: 4,810 weights."""
    check_shape("digits", math.prod(input_shape) == 64, "64 values, as (1, 8, 8)", input_shape)
    return mlp(input_shape, num_classes, hidden=(64,))
