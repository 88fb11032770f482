"""What is checked of an update before the server takes it.

Updates come from strangers. Each check names what should hold, what was found
and what to do, and has a short code by which the report counts refusals.
"""

import dataclasses
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unstale.errors import ConfigError
from unstale.params import Params, norm
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
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ConfigError(
                    f"Limits: `{name}` should be a number above 0, or None for no limit. "
                    f"Found {value!r}."
                )


# Beyond this, counts are no longer exact as floating point, in which weights are computed.
MOST_EXAMPLES = 2**53


def is_client_id(value: object) -> bool:
    """Return whether a value can name a client: a non-empty string that can be written down."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()  # a lone surrogate would make every later checkpoint fail
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """Return a stranger's value in bounded length."""
    try:
        text = repr(value)
    except Exception:  # of a huge integer, or whatever a stranger's `__repr__` raises
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 80 else f"{text[:77]}..."


def refuse(code: str, reason: str) -> Receipt:
    """Return a receipt that says no."""
    return Receipt(False, reason, code)


def check_update(
    update: Any,
    params: Params,
    version: int,
    limits: Limits,
    statistics: frozenset[str] = frozenset(),
) -> Receipt | None:
    """Return why an update cannot be taken, or None if nothing speaks against it.

    The cheap checks come first; nothing is computed from tensors whose shape,
    type and layout are not yet known to be right. The norm is that of the weights' change,
    without running `statistics`.
    """
    if not isinstance(update, Update):
        return refuse("type", f"An update should be an `Update`. Found {type(update).__name__}.")
    return (
        _check_numbers(update, version, limits)
        or _check_tensors(update.delta, params)
        or _check_values(update.delta, limits, statistics)
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _check_numbers(update: Update, version: int, limits: Limits) -> Receipt | None:
    if not is_client_id(update.client_id):
        return refuse(
            "client_id",
            "`client_id` should be a non-empty string of valid Unicode. "
            f"Found {shown(update.client_id)}.",
        )
    base, count = update.base_version, update.num_examples
    if not _is_integer(base) or base < 0:
        return refuse(
            "base_version",
            f"`base_version` should be an integer of at least 0. Found {shown(base)}.",
        )
    if base > version:
        return refuse(
            "future",
            f"`base_version` should be at most the current version {version}. "
            f"Found {shown(base)}. "
            "Send the version that came with the weights.",
        )
    if not _is_integer(count) or count < 1:
        return refuse(
            "num_examples",
            f"`num_examples` should be a positive integer. Found {shown(count)}.",
        )
    most = MOST_EXAMPLES if limits.max_examples is None else limits.max_examples
    if count > min(most, MOST_EXAMPLES):
        return refuse(
            "num_examples",
            f"`num_examples` should be at most {most} (a limit of this server). "
            f"Found {shown(count)}.",
        )
    if not (isinstance(update.weight, numbers.Real) and 0 <= update.weight <= 1):
        return refuse("weight", f"`weight` should be in [0, 1]. Found {shown(update.weight)}.")
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
            f"Missing: {shown(missing[:5])}. Not in the model: {shown(extra[:5])}.",
        )
    for name, wanted in params.items():
        found = delta[name]
        if (kind := _unusable(found)) is not None:
            return refuse(
                "type",
                f"`delta['{name}']` should be a plain dense tensor. Found {kind}. "
                "Send an ordinary `torch.Tensor`.",
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


def _unusable(value: object) -> str | None:
    """Return what a value is if it cannot be computed with, or None for a plain dense tensor.

    The kinds that have no shape or no memory are found before either is asked for: of some
    that raises, and reading a freed storage ends the process.
    """
    # A subclass may run code of its own in every operation, also after it was checked.
    if not isinstance(value, Tensor) or type(value) not in (Tensor, nn.Parameter):
        return type(value).__name__
    if value.is_nested:
        return "a nested tensor"
    if value.layout != torch.strided:
        return f"a tensor of layout {value.layout}"
    if value.is_meta:
        return "a tensor on the device meta, which has no values"
    try:
        complete = _is_in_memory(value)
    except (RuntimeError, NotImplementedError):  # wrappers of torch.func have no storage at all
        complete = False
    return None if complete else "a tensor without values in memory"


def _is_in_memory(tensor: Tensor) -> bool:
    if tensor.numel() == 0:
        return True
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    storage = tensor.untyped_storage()
    return storage.data_ptr() != 0 and storage.nbytes() >= needed


def _check_values(delta: Params, limits: Limits, statistics: frozenset[str]) -> Receipt | None:
    bad = [n for n, p in delta.items() if not bool(torch.isfinite(p).all())]
    if bad:
        return refuse(
            "not_finite",
            f"`delta` should be finite. Found NaN or infinity in {bad[:5]}. "
            "Lower the learning rate, or clip before sending.",
        )
    if limits.max_norm is not None:
        size = norm({name: p for name, p in delta.items() if name not in statistics})
        if not math.isfinite(size) or size > limits.max_norm:
            return refuse(
                "norm",
                f"The norm of `delta` should be at most {limits.max_norm:g} (a limit of this "
                f"server). Found {size:g}. Clip it before sending.",
            )
    return None


def owned(update: Update, params: Params) -> Update:
    """Return a copy of a valid update that the sender cannot change.

    Its tensors are on the device of the weights, and its numbers are Python's: a checkpoint
    cannot store NumPy's. It is no stand-in, since somebody has sent it.
    """
    return dataclasses.replace(
        update,
        delta={
            name: update.delta[name].detach().to(p.device, copy=True) for name, p in params.items()
        },
        base_version=int(update.base_version),
        num_examples=int(update.num_examples),
        weight=float(update.weight),
        stand_in=False,
    )
