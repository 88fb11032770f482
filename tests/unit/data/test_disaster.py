import io
import sys
from pathlib import Path

import numpy as np
import pytest

from unstale import data
from unstale.data import disaster
from unstale.errors import DataError

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

TILE, COLUMNS, COUNT = 16, 4, 10


def mosaic_bytes(width: int = COLUMNS * TILE, height: int = 3 * TILE, mode: str = "RGB") -> bytes:
    """Draw tile k in a grey of 20·k, so that a tile is known by its brightness."""
    pixels = np.zeros((height, width), dtype=np.uint8)
    for k in range(COUNT):
        row, column = divmod(k, COLUMNS)
        pixels[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE] = 20 * k
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "JPEG", quality=95)
    return file.getvalue()


def as_array(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


GOOD = {
    "jpeg_mosaic": as_array(mosaic_bytes()),
    "columns": np.int64(COLUMNS),
    "tile": np.int64(TILE),
    "y": (np.arange(COUNT) % 2).astype(np.uint8),
    "classes": np.array(["fires", "flood"]),
}


def test_a_written_mosaic_is_read_back(tmp_path: Path, write_npz) -> None:
    write_npz(tmp_path / "disaster64.npz", GOOD)
    photographs = data.load("disaster", tmp_path)
    assert photographs.input_shape == (3, TILE, TILE)
    assert photographs.classes == ("fires", "flood")
    assert (len(photographs.y_train), len(photographs.y_test)) == (8, 2)
    for x, y in (
        (photographs.x_train, photographs.y_train),
        (photographs.x_test, photographs.y_test),
    ):
        tiles = (x.mean((1, 2, 3)) * 255 / 20).round().int()
        assert (tiles % 2).tolist() == y.tolist()  # tile k has label k mod 2
    whole = np.concatenate([photographs.x_train, photographs.x_test]).mean((1, 2, 3))
    assert np.allclose(sorted(whole * 255 / 20), range(COUNT), atol=0.1)


def test_large_images_neither_warn_nor_change_the_global_limit(
    tmp_path: Path, write_npz, monkeypatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # every image is a "bomb" now
    write_npz(tmp_path / "disaster64.npz", GOOD)
    assert len(data.load("disaster", tmp_path).y_train) == 8
    assert Image.MAX_IMAGE_PIXELS == 100


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"jpeg_mosaic": as_array(b"no jpeg")}, "JPEG mosaic"),
        ({"jpeg_mosaic": as_array(mosaic_bytes()[:-400])}, "JPEG mosaic"),
        ({"jpeg_mosaic": as_array(mosaic_bytes(mode="L"))}, "mode L"),
        ({"jpeg_mosaic": as_array(mosaic_bytes(height=5 * TILE))}, "64×80"),
        ({"columns": np.int64(5)}, "of 80×32"),
        ({"columns": np.int64(0)}, "0 columns"),
        ({"columns": np.array([4, 4])}, "whole numbers"),
        ({"tile": np.float64(16)}, "whole numbers"),
        ({"tile": np.int64(-1)}, "tiles of -1"),
        ({"tile": np.int64(10**6)}, "tiles of 1000000"),
        ({"y": GOOD["y"] + 1}, "labels from 0 to 1. Found labels from 1 to 2"),
        ({"y": GOOD["y"][:3]}, "five or more"),
        ({"classes": None}, "only"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, write_npz, change, says: str) -> None:
    path = write_npz(tmp_path / "disaster64.npz", GOOD, **change)
    with pytest.raises(DataError, match=says) as error:
        data.load("disaster", tmp_path)
    assert str(path) in str(error.value)


def test_other_image_formats_are_not_tried(tmp_path: Path, write_npz) -> None:
    file = io.BytesIO()
    Image.new("RGB", (COLUMNS * TILE, 3 * TILE)).save(file, "PNG")
    write_npz(tmp_path / "disaster64.npz", GOOD, jpeg_mosaic=as_array(file.getvalue()))
    with pytest.raises(DataError, match="JPEG mosaic"):
        data.load("disaster", tmp_path)


def test_without_pillow_there_is_a_hint(tmp_path: Path, write_npz, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    write_npz(tmp_path / "disaster64.npz", GOOD)
    with pytest.raises(DataError, match=r'pip install "unstale\[images\]"'):
        data.load("disaster", tmp_path)
    # The file may be in order: without Pillow nobody can say that it is damaged.
    finding = data.check_one("disaster", tmp_path)
    assert finding.status == "unverified"
    assert "unstale[images]" in finding.detail


def test_the_limit_leaves_room_for_the_published_file() -> None:
    assert disaster.MAX_PIXELS > 4 * 5440 * 5312
