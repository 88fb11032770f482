"""Arithmetic on named tensors: the parameters of a model, or a change to them.

`Params` maps a parameter's name to its tensor, as `nn.Module.named_parameters`
does. No function here changes its arguments.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unstale.errors import ConfigError

# name -> tensor; all mappings of one run have the same names, shapes and dtypes.
Params = Mapping[str, Tensor]


def params_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a detached copy of the parameters of a model, by name."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def clone(params: Params) -> dict[str, Tensor]:
    """Return a detached copy of all tensors."""
    return {name: p.detach().clone() for name, p in params.items()}


def to_device(params: Params, device: torch.device | str) -> dict[str, Tensor]:
    """Return the tensors on `device`; those already there are not copied."""
    return {name: p.to(device) for name, p in params.items()}


def zeros_like(params: Params) -> dict[str, Tensor]:
    """Return zeros with the same names, shapes and dtypes."""
    return {name: torch.zeros_like(p) for name, p in params.items()}


def add(a: Params, b: Params, scale: float = 1.0) -> dict[str, Tensor]:
    """Return `a + scale * b`."""
    return {name: p + scale * b[name] for name, p in a.items()}


def subtract(a: Params, b: Params) -> dict[str, Tensor]:
    """Return `a - b`."""
    return {name: p - b[name] for name, p in a.items()}


def scale(a: Params, factor: float) -> dict[str, Tensor]:
    """Return `factor * a`."""
    return {name: factor * p for name, p in a.items()}


def weighted_mean(items: Sequence[Params], weights: Sequence[float]) -> dict[str, Tensor]:
    """Return `sum(weights[i] * items[i]) / sum(weights)`.

    Raises:
        ConfigError: If there are no items, or if the weights add up to zero.

    Example:
        >>> import torch
        >>> a, b = {"w": torch.tensor([1.0])}, {"w": torch.tensor([4.0])}
        >>> weighted_mean([a, b], [2.0, 1.0])["w"]
        tensor([2.])
    """
    total = float(sum(weights))
    if not items or total <= 0:
        raise ConfigError(
            "A weighted mean should have items whose weights add up to more than zero. "
            f"Found {len(items)} items of total weight {total}. Skip rounds without updates."
        )
    mean = {name: torch.zeros_like(p) for name, p in items[0].items()}
    for item, weight in zip(items, weights, strict=True):
        for name, p in mean.items():
            p.add_(item[name], alpha=weight / total)
    return mean


def flatten(params: Params) -> Tensor:
    """Return all entries as one vector, parameters in the order of the mapping."""
    return torch.cat([p.reshape(-1) for p in params.values()])


def all_finite(tree: Any) -> bool:
    """Return whether all entries of all tensors are finite, however deep they lie.

    Example:
        >>> import torch
        >>> all_finite({"w": torch.ones(2)}), all_finite({"m": {"w": torch.tensor([math.inf])}})
        (True, False)
    """
    finite = [torch.isfinite(tensor).all() for tensor in _tensors_in(tree)]
    return bool(torch.stack(finite).all()) if finite else True  # a GPU is waited for once


def _tensors_in(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Mapping | list | tuple):
        for item in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _tensors_in(item)


def norm(params: Params) -> float:
    """Return the L2 norm of all entries, summed in double precision."""
    squares = sum(float(p.detach().double().square().sum()) for p in params.values())
    return float(squares**0.5)


def cosine_distance(a: Params, b: Params) -> float:
    """Return `1 - cos(a, b)` over all entries; 1 if either norm is zero."""
    dot = sum(float((p.double() * b[name].double()).sum()) for name, p in a.items())
    size = norm(a) * norm(b)
    return 1.0 - dot / size if size > 0 else 1.0


def l1_error(value: Params, truth: Params) -> float:
    """Return the relative L1 error `Σ|value − truth| / Σ|truth|`; NaN if the truth is zero.

    Unlike the cosine distance it also counts how long `value` is. 0 is the truth itself, 1 is an
    update that changes nothing.

    Example:
        >>> import torch
        >>> l1_error({"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([1.0, 1.0])})
        0.5
    """
    pairs = [(p.detach().double(), truth[name].detach().double()) for name, p in value.items()]
    size = sum(float(t.abs().sum()) for _, t in pairs)
    return sum(float((v - t).abs().sum()) for v, t in pairs) / size if size > 0 else math.nan


def num_bytes(params: Params) -> int:
    """Return the size of all tensors in bytes."""
    return sum(p.numel() * p.element_size() for p in params.values())
