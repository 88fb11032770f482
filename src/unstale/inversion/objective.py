"""What a fit minimises: the disparity between two changes of the weights, and a penalty.

Each disparity compares `value` with `target` over the last dimension, counts only the
entries of `mask`, and is scaled by the target's own size: 0 is a perfect fit, and a
change of zero scores 1, for every model. Names may be added up, such as "l1+cosine"; a
change of zero then scores the number of terms.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from unstale.errors import ConfigError, UnknownNameError

# (value, target, mask), all [..., entries] -> [...]; a mask of None counts every entry.
Disparity = Callable[[Tensor, Tensor, Tensor | None], Tensor]

# Keeps roots differentiable at a perfect fit; far below what a fit can reach in single precision.
_FLOOR = 1e-16
# Inputs have this many dimensions besides their samples' -> how many of the last ones are
# positions: features have none, signals are [channels, time], images [channels, height, width].
_POSITIONS = {1: 0, 2: 1, 3: 2, 4: 3}


def l1(value: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return `Σ|v − t| / Σ|t|`."""
    size = _kept(target, mask).abs().sum(-1)
    return (_kept(value - target, mask) / _positive(size).unsqueeze(-1)).abs().sum(-1)


def l2(value: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return `‖v − t‖ / ‖t‖`: the norm, not its square."""
    # Divided before it is squared, so that small and large targets neither under- nor overflow.
    scale = _scale(_kept(target, mask))
    size = torch.linalg.vector_norm(_kept(target / scale, mask), dim=-1, keepdim=True)
    error = _kept(value - target, mask) / scale / _positive(size)
    return (error.square().sum(-1) + _FLOOR).sqrt()


def cosine(value: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return `1 − v·t / (‖v‖ ‖t‖)`; 1 where the value is zero."""
    value, target = _kept(value, mask), _kept(target, mask)
    value, target = value / _scale(value), target / _scale(target)
    target = target / _positive(torch.linalg.vector_norm(target, dim=-1, keepdim=True))
    length = (value.square().sum(-1) + _FLOOR).sqrt()
    return 1 - (value * target).sum(-1) / length


DISPARITIES: dict[str, Disparity] = {"l1": l1, "l2": l2, "cosine": cosine}


def terms_of(name: str) -> tuple[str, ...]:
    """Return the names that are added up in `name`.

    Raises:
        ConfigError: If there is none, or one that is unknown.

    Example:
        >>> terms_of("l1+cosine")
        ('l1', 'cosine')
    """
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(
            f"An objective should be a name or names joined by '+'. Found {name!r}. "
            f"Use one or more of: {', '.join(sorted(DISPARITIES))}."
        )
    names = tuple(part.strip() for part in name.split("+"))
    for part in names:
        if part not in DISPARITIES:
            raise UnknownNameError("An objective", part, DISPARITIES)
    return names


def disparity_of(name: str) -> Disparity:
    """Return the disparity of that name: the sum of its terms.

    Example:
        >>> v, t = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])
        >>> float(disparity_of("l1")(v, t, None))
        0.5
    """
    terms = [DISPARITIES[part] for part in terms_of(name)]

    def disparity(value: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        total = terms[0](value, target, mask)
        for term in terms[1:]:
            total = total + term(value, target, mask)
        return total

    return disparity


def total_variation(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the mean absolute difference between neighbours, for each data set.

    Args:
        x: Inputs `[..., samples, *shape]`.
        shape: The shape of one input: `[features]`, `[channels, time]` or
            `[channels, height, width]`. Features have no neighbours and score 0.

    Returns:
        One number for each data set `[...]`.

    Example:
        >>> total_variation(torch.tensor([[[0.0, 1.0, 1.0]]]), (1, 3))
        tensor(0.5000)
    """
    start = x.ndim - len(shape) - 1
    total = torch.zeros(x.shape[:start], dtype=x.dtype, device=x.device)
    for axis in range(-_POSITIONS.get(len(shape), 0), 0):
        if shape[axis] > 1:
            total = total + x.diff(dim=axis).abs().flatten(start).mean(-1)
    return total


def entropy(logits: Tensor) -> Tensor:
    """Return the mean entropy of soft labels, for each data set.

    Args:
        logits: Labels before the softmax `[..., samples, classes]`.

    Returns:
        One number for each data set `[...]`, at most the logarithm of the number of classes.

    Example:
        >>> entropy(torch.zeros(5, 2)).exp()
        tensor(2.)
    """
    return -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean(-1)


def _kept(vector: Tensor, mask: Tensor | None) -> Tensor:
    return vector if mask is None else vector * mask


def _scale(vector: Tensor) -> Tensor:
    """Return the largest size of an entry as a constant; 1 where all are zero."""
    largest = vector.detach().abs().amax(-1, keepdim=True)
    return torch.where(largest > 0, largest, 1.0)


def _positive(size: Tensor) -> Tensor:
    return size.clamp_min(torch.finfo(size.dtype).tiny)
