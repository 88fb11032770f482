"""Draws the images of a result file: recovered ones by sparsity, and a client's beside its own.

python experiments/privacy_images/pictures.py results/lenet_mnist_10.json pictures recovered.png
python experiments/privacy_images/pictures.py results/lenet_mnist_10.json matches matches.png
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np


def image(values: list[int], shape: list[int]) -> np.ndarray:
    """Return one picture as matplotlib takes it: rows, columns, colours.

    Example:
        >>> image([0, 255, 10, 20], [1, 2, 2]).tolist()
        [[0, 255], [10, 20]]
    """
    whole = np.asarray(values, dtype=np.uint8).reshape(shape)
    return whole[0] if len(whole) == 1 else whole.transpose(1, 2, 0)


def draw(pictures: dict[str, Any], path: Path) -> None:
    """Draw one row for each attack and protection, below the originals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shape = pictures["shape"]
    rows = {name: values for name, values in pictures.items() if name != "shape"}
    across = max(map(len, rows.values()))
    figure, places = pyplot.subplots(
        len(rows), across, figsize=(1.1 * across + 2, 1.1 * len(rows)), squeeze=False
    )
    for line, (name, values) in zip(places, rows.items(), strict=True):
        for place in line:
            place.set_axis_off()
        for place, one in zip(line, values, strict=False):
            place.imshow(image(one, shape), cmap="gray", vmin=0, vmax=255)
        line[0].text(-0.15, 0.5, name, ha="right", va="center", transform=line[0].transAxes)
    figure.savefig(path, bbox_inches="tight", dpi=100)
    pyplot.close(figure)


def main() -> None:
    """Draw the pictures of a result file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("which", choices=("pictures", "matches"))
    parser.add_argument("png", type=Path)
    arguments = parser.parse_args()
    draw(json.loads(arguments.results.read_text(encoding="utf-8"))[arguments.which], arguments.png)


if __name__ == "__main__":
    main()
