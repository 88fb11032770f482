"""The disaster photographs: one JPEG mosaic of equal tiles in an .npz file."""

import math
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unstale.data.dataset import Dataset, int_labels, unit_images
from unstale.data.faults import MissingExtraError, check_labels, damaged
from unstale.data.npz import read_npz
from unstale.data.source import Files, Layout, Source
from unstale.data.split import stratified_test_mask
from unstale.seeding import numpy_generator

MAX_PIXELS = 2**28
"""Maximum size of a mosaic: ten times the published one, 0.8 GB decoded."""


def decode_mosaic(
    path: Path, jpeg: bytes, columns: int, tile: int, count: int
) -> NDArray[np.uint8]:
    """Return the first `count` tiles of a mosaic, row by row, as [count, 3, tile, tile].

    Before decoding, the size of the image is compared with `columns`, `tile` and `count`, so
    that a file cannot make us allocate more memory than it announces.

    Raises:
        MissingExtraError: Without Pillow.
        DataError: When the bytes are no JPEG, or one of another size.
    """
    try:
        from PIL import JpegImagePlugin
    except ImportError as error:
        raise MissingExtraError("disaster", "Pillow", "images") from error
    rows = math.ceil(count / columns)
    size = (columns * tile, rows * tile)
    should = f"hold a JPEG mosaic of {size[0]}×{size[1]} pixels in colour"
    try:
        # The JPEG reader itself and not Image.open: no other format is tried, and Pillow's
        # warning about large images, which is a global setting, is replaced by our own check.
        image = JpegImagePlugin.JpegImageFile(BytesIO(jpeg))
        if image.size != size or image.mode != "RGB":
            raise damaged(path, should, f"{image.size[0]}×{image.size[1]} in mode {image.mode}")
        pixels = np.asarray(image)
    except (SyntaxError, OSError, ValueError, EOFError) as error:
        raise damaged(path, should, f"{type(error).__name__}: {error}") from error
    grid = pixels.reshape(rows, tile, columns, tile, 3)
    return grid.transpose(0, 2, 4, 1, 3).reshape(-1, 3, tile, tile)[:count]


def read_disaster(files: Files) -> Dataset:
    """Return the photographs as [3, 64, 64] in [0, 1].

    There is no published split; the test part is a fifth of each class, drawn with a fixed
    seed.
    """
    path = files["disaster64.npz"]
    jpeg, columns, tile, labels, classes = read_npz(
        path, "jpeg_mosaic", "columns", "tile", "y", "classes"
    )
    numbers = columns.size == tile.size == 1 and columns.dtype.kind + tile.dtype.kind in (
        "ii",
        "uu",
    )
    if not numbers or labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) < 5:
        raise damaged(
            path,
            "hold whole numbers columns and tile, and a label for each of five or more tiles",
            f"columns {columns.shape}, tile {tile.shape}, y {labels.dtype} {labels.shape}",
        )
    width, side = int(columns.item()), int(tile.item())
    pixels = (math.ceil(len(labels) / width) * width * side * side) if width > 0 else 0
    if not (side > 0 and 0 < pixels <= MAX_PIXELS):
        raise damaged(
            path, f"announce 1 to {MAX_PIXELS} pixels", f"{width} columns of tiles of {side}"
        )
    check_labels(path, int(labels.min()), int(labels.max()), 0, len(classes) - 1)
    images = decode_mosaic(path, jpeg.tobytes(), width, side, len(labels))
    order = numpy_generator(0, "data", "disaster", "split").permutation(len(labels))
    test = stratified_test_mask(labels, order, len(labels) // 5)
    return Dataset(
        name="disaster",
        x_train=unit_images(images[~test]),
        y_train=int_labels(labels[~test]),
        x_test=unit_images(images[test]),
        y_test=int_labels(labels[test]),
        classes=tuple(str(name) for name in classes),
        low=0.0,
        high=1.0,
    )


SOURCE = Source(
    summary="disaster photographs of 64×64 in colour: 5,640 + 1,409, 5 classes",
    layouts=(
        Layout(
            read_disaster,
            {
                "disaster64.npz": "sha256:"
                "5e7f4d0bdb927c3b35609428a2f72231d1cd87762606c46810d54cdea6ad7b21"
            },
            (".", "disaster"),
        ),
    ),
    obtain=(
        "disaster64.npz is made from labelled photographs scaled to 64×64: one JPEG of all of "
        "them in rows as bytes jpeg_mosaic, with columns, tile, y and classes, saved with "
        "numpy.savez."
    ),
)
