"""The registry of models: `build`, `names` and `register`."""

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from unstale.errors import ConfigError, UnknownNameError
from unstale.seeding import derive

Builder = Callable[..., nn.Module]
"""``builder(input_shape, num_classes, *, setting=default, …)``: returns a model. Keyword-only
parameters are the settings of the model. Raises ConfigError for arguments it cannot handle."""

BUILDERS: dict[str, Builder] = {}


def register(name: str, builder: Builder, *, force: bool = False) -> None:
    """Make a model available to `build` and experiment files.

    Args:
        name: The name of the model.
        builder: Creates the model; see `Builder`.
        force: Whether to replace a model that has the name already.

    Raises:
        ConfigError: If the name is empty, or taken and `force` is false.

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
        raise ConfigError("The name of a model should not be empty. Found ''. Pass a name.")
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
    """Build a model on the CPU, with initial weights that depend on the seed only.

    PyTorch's layers draw their initial weights from the global generator. It is seeded for
    the time of the call and restored afterwards, so the call neither depends on its state
    nor changes it.

    Args:
        name: One of `names()`.
        input_shape: The shape of one input, as in `Dataset.input_shape`.
        num_classes: Number of logits.
        seed: Seed of the initial weights.
        settings: Settings of the model, such as ``hidden`` of the mlp.

    Returns:
        The model, in training mode.

    Raises:
        UnknownNameError: If no model has the name.
        ConfigError: If the model cannot take such inputs or has no such setting.

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
    # On the CPU, since an accelerator would draw weights from its own generator.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # Not torch.manual_seed, which also sets the generators of all accelerators permanently.
        torch.default_generator.manual_seed(derive(seed, "model", name))
        return builder(shape, num_classes, **settings)


def takes_tokens(name: str) -> bool:
    """Tell whether a model's inputs are token ids: whether it has a setting `vocabulary`.

    Example:
        >>> takes_tokens("text_cnn"), takes_tokens("lenet")
        (True, False)
    """
    if name not in BUILDERS:
        raise UnknownNameError("The model", name, BUILDERS)
    return "vocabulary" in inspect.signature(BUILDERS[name]).parameters


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_settings(name: str, builder: Builder, settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for settings that the builder does not have."""
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
    """Raise ConfigError if an input shape does not fit a model.

    Args:
        name: The model.
        fits: Whether the shape fits.
        should: The shapes that fit, in words.
        found: The shape.
    """
    if not fits:
        raise ConfigError(
            f"Inputs of model '{name}' should be {should}. Found {found}. "
            f"Choose another model or data set."
        )


def check_counts(what: str, values: Sequence[int], count: int | None = None) -> tuple[int, ...]:
    """Return `values` as a tuple of positive integers; of length `count`, if given.

    Raises:
        ConfigError: If they are anything else.
    """
    fits = isinstance(values, list | tuple) and values and all(_is_count(v) for v in values)
    if not fits or (count is not None and len(values) != count):
        number = "one or more" if count is None else str(count)
        raise ConfigError(f"{what} should hold {number} whole numbers from 1. Found {values!r}.")
    return tuple(values)
