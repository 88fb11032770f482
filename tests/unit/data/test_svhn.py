from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from unstale import data
from unstale.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
LABELS = np.array([[1], [9], [10], [5]], dtype=np.uint8)  # 10 is the digit 0


def write_set(root: Path, folder: str = "svhn") -> Path:
    (root / folder).mkdir(parents=True)
    for name, count in (("train", 4), ("test", 3)):
        savemat(
            root / folder / f"{name}_32x32.mat",
            {"X": IMAGES[..., :count], "y": LABELS[:count]},
            do_compression=True,
        )
    return root / folder


@pytest.mark.parametrize("folder", ["svhn", "SVHN", "."])
def test_a_written_set_is_read_back(tmp_path: Path, folder: str) -> None:
    write_set(tmp_path / "root", folder) if folder != "." else write_set(tmp_path, "root")
    svhn = data.load("svhn", tmp_path / "root")
    assert svhn.y_train.tolist() == [1, 9, 0, 5]
    assert svhn.y_test.tolist() == [1, 9, 0]
    assert svhn.input_shape == (3, 32, 32)
    assert float(svhn.x_train[3, 2, 5, 7]) == np.float32(IMAGES[5, 7, 2, 3]) / np.float32(255)
    assert torch.equal(svhn.x_train[:3], svhn.x_test)


@pytest.mark.parametrize(
    "content",
    [
        {"X": IMAGES, "y": LABELS[:3]},
        {"X": IMAGES.astype(float), "y": LABELS},
        {"X": IMAGES, "y": LABELS.astype(float)},
        {"X": IMAGES[:16], "y": LABELS},
        {"X": IMAGES[..., :0], "y": LABELS[:0]},
        {"X": IMAGES},
        {"X": IMAGES, "y": LABELS + 1},
        {"X": IMAGES, "y": LABELS - 1},
    ],
)
def test_other_content_is_refused_by_name(tmp_path: Path, content: dict[str, object]) -> None:
    path = write_set(tmp_path) / "test_32x32.mat"
    savemat(path, content)
    with pytest.raises(DataError) as error:
        data.load("svhn", tmp_path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("keep", [0, 100, 130, 2000])
def test_truncated_files_are_damaged(tmp_path: Path, keep: int) -> None:
    path = write_set(tmp_path) / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"train_32x32.mat should be a MATLAB file"):
        data.load("svhn", tmp_path)


def test_rubbish_is_damaged(tmp_path: Path) -> None:
    path = write_set(tmp_path) / "train_32x32.mat"
    path.write_bytes(b"\x89HDF rubbish" * 50)
    with pytest.raises(DataError, match=r"train_32x32.mat"):
        data.load("svhn", tmp_path)
