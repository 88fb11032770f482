"""What natural inputs have in common, as a penalty: neighbours differ little."""

import torch
from torch import Tensor

# Inputs have this many dimensions besides their samples' -> how many of the last ones are
# positions: features have none, signals are [channels, time], images [channels, height, width].
_POSITIONS = {1: 0, 2: 1, 3: 2, 4: 3}


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
