"""Arithmetic over named tensors: the weights of a model, or a change to them.

`Params` is a mapping from a parameter's name to its tensor, as
`nn.Module.named_parameters` gives it. All functions return new tensors and
leave their arguments alone.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from unstale.errors import ConfigError

# name -> tensor; every mapping of one run has the same names, shapes and dtypes.
Params = Mapping[str, Tensor]


def params_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a detached copy of a model's parameters, by name."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def clone(params: Params) -> dict[str, Tensor]:
    """Return a detached copy."""
    return {name: p.detach().clone() for name, p in params.items()}


def to_device(params: Params, device: torch.device | str) -> dict[str, Tensor]:
    """Return the same tensors on `device` (not copied where they are there already)."""
    return {name: p.to(device) for name, p in params.items()}


def zeros_like(params: Params) -> dict[str, Tensor]:
    """Return zeros of the same names and shapes."""
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
    """Return the mean of `items` under `weights`, which must not all be zero.

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
            f"Found {len(items)} items of total weight {total}. Treat an empty round before."
        )
    mean = {name: torch.zeros_like(p) for name, p in items[0].items()}
    for item, weight in zip(items, weights, strict=True):
        for name, p in mean.items():
            p.add_(item[name], alpha=weight / total)
    return mean


def flatten(params: Params) -> Tensor:
    """Return all entries as one vector, names in their mapping's order."""
    return torch.cat([p.reshape(-1) for p in params.values()])


def norm(params: Params) -> float:
    """Return the L2 norm over all entries, summed in double precision."""
    squares = sum(float(p.detach().double().square().sum()) for p in params.values())
    return float(squares**0.5)


def cosine_distance(a: Params, b: Params) -> float:
    """Return `1 - cos(a, b)` over all entries; 1 where either is zero."""
    dot = sum(float((p.double() * b[name].double()).sum()) for name, p in a.items())
    size = norm(a) * norm(b)
    return 1.0 - dot / size if size > 0 else 1.0


def num_bytes(params: Params) -> int:
    """Return the memory that the tensors' entries take."""
    return sum(p.numel() * p.element_size() for p in params.values())
