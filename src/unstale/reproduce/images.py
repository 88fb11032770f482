"""Images in result files: samples as grey levels from 0 to 255, and rows of them as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

LEVELS = 255


def as_levels(x: "Tensor", low: float, high: float) -> list[list[int]]:
    """Return each image as a list of whole numbers from 0 (`low`) to 255 (`high`).

    Args:
        x: Images `[images, channels, height, width]`.
        low: The value that is black.
        high: The value that is white.

    Example:
        >>> import torch
        >>> as_levels(torch.tensor([[[[-1.0, 0.0, 3.0]]]]), -1.0, 1.0)
        [[0, 128, 255]]
    """
    levels = ((x.flatten(1) - low) / (high - low)).clamp(0, 1) * LEVELS
    found: list[list[int]] = levels.round().int().tolist()
    return found


def draw_rows(
    rows: Mapping[str, Sequence[Sequence[int]]],
    shape: Sequence[int],
    path: Path,
    scale: float = 0.7,
) -> None:
    """Draw a row of images for each name, into a PNG.

    Args:
        rows: Images as `as_levels` returns them, by the name of their row.
        shape: The shape of one image: channels, height, width.
        path: The file.
        scale: The side of an image in inches.
    """
    from matplotlib.figure import Figure

    across = max(map(len, rows.values()))
    figure = Figure(figsize=(scale * across + 2, scale * len(rows)), dpi=100)
    axes = figure.subplots(len(rows), across, squeeze=False)
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        for axis in line:
            axis.set_axis_off()
        for axis, levels in zip(line, images, strict=False):
            axis.imshow(_pixels(levels, shape), cmap="gray", vmin=0, vmax=LEVELS)
        line[0].text(-0.15, 0.5, name, ha="right", va="center", transform=line[0].transAxes)
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})


def _pixels(levels: Sequence[int], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return an image as matplotlib takes it: rows, columns and, with colours, channels."""
    whole = np.asarray(levels, dtype=np.uint8).reshape(tuple(shape))
    return whole[0] if len(whole) == 1 else whole.transpose(1, 2, 0)
