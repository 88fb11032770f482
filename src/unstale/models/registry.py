"""Models by name: `build`, `names`, and `register` for one's own."""

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from unstale.errors import ConfigError, UnknownNameError
from unstale.seeding import derive

Builder = Callable[..., nn.Module]
"""``builder(input_shape, num_classes, *, setting=default, …)``; raises ConfigError on what it
cannot build. Keyword-only parameters are its settings."""

BUILDERS: dict[str, Builder] = {}


def register(name: str, builder: Builder, *, force: bool = False) -> None:
    """Make a model available to `build` and experiment files.

    Args:
        name: What it is called there.
        builder: Makes it; see `Builder`.
        force: Replace one that has the name already.

    Raises:
        ConfigError: When the name is empty or taken and `force` is false.

    Example:
        >>> from torch import nn
        >>> from unstale import models
        >>> def linear(input_shape, num_classes, *, bias=True):
        ...     return nn.Linear(input_shape[0], num_classes, bias)
        >>> models.register("linear", linear, force=True)
        >>> models.build("linear", (3,), 2, bias=False)
        Linear(in_features=3, out_features=2, bias=False)
    """
    if not name:
        raise ConfigError("The name of a model should not be empty. Found ''. Name it.")
    if name in BUILDERS and not force:
        raise ConfigError(
            f"The name of a model should be new. Found '{name}', which is registered. "
            f"Choose another name or pass force=True."
        )
    BUILDERS[name] = builder


def names() -> tuple[str, ...]:
    """Return the names of all models, in the order in which they were registered."""
    return tuple(BUILDERS)


def build(
    name: str, input_shape: tuple[int, ...], num_classes: int, *, seed: int = 0, **settings: Any
) -> nn.Module:
    """Make a model on the CPU with weights that depend on the seed alone.

    PyTorch's layers draw their first weights from the global generator and take no
    other, and so do the modules of users. So the model is made while that generator
    is set from `seed`, and put back to where it was: nothing outside notices, and
    nothing outside matters.

    Args:
        name: One of `names()`.
        input_shape: The shape of one input, as `Dataset.input_shape`.
        num_classes: How many logits it should give.
        seed: Where the first weights come from.
        settings: What the model can be told besides, such as ``hidden`` for the mlp.

    Returns:
        The model, in training mode.

    Raises:
        UnknownNameError: When nothing is registered under the name.
        ConfigError: When the model cannot take such inputs or has no such setting.

    Example:
        >>> from unstale import models
        >>> lenet = models.build("lenet", (1, 28, 28), 10, seed=0)
        >>> sum(weight.numel() for weight in lenet.parameters())
        21840
    """
    if name not in BUILDERS:
        raise UnknownNameError("The model", name, BUILDERS)
    builder = BUILDERS[name]
    shape = tuple(input_shape)
    if not shape or not all(_is_count(size) for size in shape):
        raise ConfigError(
            f"input_shape of model '{name}' should hold whole numbers from 1. Found {shape}."
        )
    if not _is_count(num_classes) or num_classes < 2:
        raise ConfigError(f"num_classes should be a whole number from 2. Found {num_classes!r}.")
    _check_settings(name, builder, settings)
    # The device is pinned too: on an accelerator weights would come from its own generator.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # Not torch.manual_seed: that one also sets the generators of every accelerator, for good.
        torch.default_generator.manual_seed(derive(seed, "model", name))
        return builder(shape, num_classes, **settings)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_settings(name: str, builder: Builder, settings: Mapping[str, Any]) -> None:
    """Refuse settings that the builder does not have, before Python does it less kindly."""
    parameters = inspect.signature(builder).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(
                f"A setting of model '{name}' should be one of: {', '.join(known) or '(none)'}. "
                f"Found '{key}'.{hint}"
            )


def check_shape(name: str, fits: bool, should: str, found: tuple[int, ...]) -> None:
    """Refuse an input shape that a model cannot take.

    Raises:
        ConfigError: When `fits` is false.
    """
    if not fits:
        raise ConfigError(
            f"Inputs of model '{name}' should be {should}. Found {found}. "
            f"Choose another model or data set."
        )


def check_counts(what: str, values: Sequence[int], count: int | None = None) -> tuple[int, ...]:
    """Return `values` as a tuple of whole numbers from 1, `count` of them where given.

    Raises:
        ConfigError: When they are anything else.
    """
    fits = isinstance(values, list | tuple) and values and all(_is_count(v) for v in values)
    if not fits or (count is not None and len(values) != count):
        number = "one or more" if count is None else str(count)
        raise ConfigError(f"{what} should hold {number} whole numbers from 1. Found {values!r}.")
    return tuple(values)
