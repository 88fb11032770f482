"""What is checked of an update before the server takes it.

Updates come from strangers. Each check names what should hold, what was found
and what to do, and has a short code by which the report counts refusals.
"""

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unstale.errors import ConfigError
from unstale.params import Params, flatten
from unstale.updates import Receipt, Update


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that a user sets on what clients may send."""

    max_norm: float | None = None
    """The largest L2 norm of a delta; unlimited when not given."""
    max_examples: int | None = None
    """The largest `num_examples`; unlimited when not given."""

    def __post_init__(self) -> None:
        for name in ("max_norm", "max_examples"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"Limits: `{name}` should be above 0. Found {value!r}.")


def refuse(code: str, reason: str) -> Receipt:
    """Return a receipt that says no."""
    return Receipt(False, reason, code)


def check_update(update: Any, params: Params, version: int, limits: Limits) -> Receipt | None:
    """Return why an update cannot be taken, or None if nothing speaks against it.

    The cheap checks come first; nothing is computed from tensors whose shape,
    type and layout are not yet known to be right.
    """
    if not isinstance(update, Update):
        return refuse("type", f"An update should be an `Update`. Found {type(update).__name__}.")
    return (
        _check_numbers(update, version, limits)
        or _check_tensors(update.delta, params)
        or _check_values(update.delta, limits)
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _check_numbers(update: Update, version: int, limits: Limits) -> Receipt | None:
    if not isinstance(update.client_id, str) or not update.client_id:
        return refuse(
            "client_id", f"`client_id` should be a non-empty string. Found {update.client_id!r}."
        )
    base, count = update.base_version, update.num_examples
    if not _is_integer(base) or base < 0:
        return refuse(
            "base_version", f"`base_version` should be an integer of at least 0. Found {base!r}."
        )
    if base > version:
        return refuse(
            "future",
            f"`base_version` should be at most the current version {version}. Found {base}. "
            "Send the version that came with the weights.",
        )
    if not _is_integer(count) or count < 1:
        return refuse(
            "num_examples", f"`num_examples` should be a positive integer. Found {count!r}."
        )
    if limits.max_examples is not None and count > limits.max_examples:
        return refuse(
            "num_examples",
            f"`num_examples` should be at most {limits.max_examples} (a limit of this server). "
            f"Found {count}.",
        )
    if not (isinstance(update.weight, numbers.Real) and 0 <= update.weight <= 1):
        return refuse("weight", f"`weight` should be in [0, 1]. Found {update.weight!r}.")
    return None


def _check_tensors(delta: object, params: Params) -> Receipt | None:
    if not isinstance(delta, Mapping):
        return refuse("names", f"`delta` should map names to tensors. Found {type(delta)}.")
    if set(delta) != set(params):
        missing, extra = (
            sorted(set(params) - set(delta)),
            sorted(map(str, set(delta) - set(params))),
        )
        return refuse(
            "names",
            f"`delta` should have the model's {len(params)} names. "
            f"Missing: {missing[:5]}. Not in the model: {extra[:5]}.",
        )
    for name, wanted in params.items():
        found = delta[name]
        if not isinstance(found, Tensor) or found.layout != torch.strided or found.is_meta:
            return refuse(
                "type", f"`delta['{name}']` should be a dense tensor. Found {type(found).__name__}."
            )
        if found.shape != wanted.shape:
            return refuse(
                "shape",
                f"`delta['{name}']` should have the shape {tuple(wanted.shape)}. "
                f"Found {tuple(found.shape)}.",
            )
        if found.dtype != wanted.dtype:
            return refuse(
                "dtype",
                f"`delta['{name}']` should be {wanted.dtype}. Found {found.dtype}. "
                "Convert it before sending.",
            )
    return None


def _check_values(delta: Params, limits: Limits) -> Receipt | None:
    flat = flatten({name: p.detach() for name, p in delta.items()})
    if not bool(torch.isfinite(flat).all()):
        bad = [n for n, p in delta.items() if not bool(torch.isfinite(p).all())]
        return refuse(
            "not_finite",
            f"`delta` should be finite. Found NaN or infinity in {bad[:5]}. "
            "Lower the learning rate, or clip before sending.",
        )
    if limits.max_norm is not None:
        size = float(flat.double().norm())
        if not math.isfinite(size) or size > limits.max_norm:
            return refuse(
                "norm",
                f"The norm of `delta` should be at most {limits.max_norm:g} (a limit of this "
                f"server). Found {size:g}. Clip it before sending.",
            )
    return None
