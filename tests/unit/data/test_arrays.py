from pathlib import Path

import numpy as np
import pytest
import torch

from unstale import data
from unstale.errors import DataError

RNG = np.random.default_rng(0)
# Three people, three activities each, five windows an activity, in order of time.
HAPT = {
    "X": (RNG.normal(size=(45, 16, 6)) * [1, 2, 3, 4, 5, 6] + 7).astype(np.float32),
    "y": np.tile(np.repeat([1, 2, 12], 5), 3).astype(np.int8),
    "subject": np.repeat([1, 2, 3], 15).astype(np.int8),
}
EXTRASENSORY = {
    "Z": RNG.normal(size=(40, 7)).astype(np.float16),
    "y": np.tile(np.repeat([0, 1], 10), 2).astype(np.int8),
    "user": np.repeat([0, 1], 20).astype(np.int8),
    "classes": np.array(["LYING", "SITTING"]),
}


@pytest.mark.parametrize("folder", [".", "hapt"])
def test_hapt_is_read_channels_first_and_standardised(tmp_path: Path, write_npz, folder) -> None:
    write_npz(tmp_path / folder / "hapt.npz", HAPT)
    hapt = data.load("hapt", tmp_path)
    assert hapt.input_shape == (6, 16)
    assert (hapt.num_classes, hapt.classes[11]) == (12, "LIE_TO_STAND")
    assert sorted(set(hapt.y_train.tolist())) == [0, 1, 11]
    assert (hapt.low, hapt.high) == (-10.0, 10.0)
    assert torch.allclose(hapt.x_train.mean((0, 2)), torch.zeros(6), atol=1e-5)
    assert torch.allclose(hapt.x_train.std((0, 2), correction=0), torch.ones(6), atol=1e-5)
    # The first window of the first person is a training sample; undo the scaling.
    train = HAPT["X"][np.arange(45) % 5 != 4].astype(np.float64)
    expected = (HAPT["X"][0] - train.mean((0, 1))) / train.std((0, 1))
    assert np.allclose(hapt.x_train[0].numpy(), expected.T, atol=1e-5)


def test_the_last_fifth_of_every_person_and_activity_is_tested(tmp_path: Path, write_npz) -> None:
    marked = HAPT["X"].copy()
    marked[:, 0, 0] = np.arange(45)
    write_npz(tmp_path / "hapt.npz", HAPT, X=marked)
    hapt = data.load("hapt", tmp_path)
    # Equal steps in the file stay equal steps after scaling, so ranks give back the index.
    marks = torch.cat([hapt.x_train, hapt.x_test])[:, 0, 0]
    index = marks.argsort().argsort()
    assert index[36:].tolist() == list(range(4, 45, 5))
    assert hapt.users_train.tolist() == [0] * 12 + [1] * 12 + [2] * 12


def test_outliers_are_clipped_and_constant_channels_are_zero(tmp_path: Path, write_npz) -> None:
    windows = HAPT["X"].copy()
    windows[0, 0, 0] = 1e4
    windows[:, :, 1] = 3.0
    write_npz(tmp_path / "hapt.npz", HAPT, X=windows)
    hapt = data.load("hapt", tmp_path)
    assert float(hapt.x_train.max()) == 10.0
    assert float(hapt.x_train[:, 1].abs().max()) < 1e-5


def test_extrasensory_is_read_with_missing_values_as_the_mean(tmp_path: Path, write_npz) -> None:
    features = EXTRASENSORY["Z"].copy()
    features[3, 2] = np.nan
    features[4, 2] = 30
    write_npz(tmp_path / "extrasensory.npz", EXTRASENSORY, Z=features)
    extra = data.load("extrasensory", tmp_path)
    assert extra.input_shape == (7,)
    assert extra.classes == ("LYING", "SITTING")
    assert (len(extra.y_train), len(extra.y_test)) == (32, 8)
    assert float(extra.x_train[3, 2]) == 0.0
    assert float(extra.x_train[4, 2]) == extra.high == 20.0
    assert torch.equal(extra.x_train[0], torch.from_numpy(features[0].astype(np.float32)))
    assert torch.bincount(extra.users_train).tolist() == [16, 16]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y": HAPT["y"] - 1}, "labels from 1 to 12. Found labels from 0 to 11"),
        ({"y": HAPT["y"] + 1}, "labels from 2 to 13"),
        ({"y": HAPT["y"][:-1]}, r"\(44,\)"),
        ({"y": HAPT["y"].astype(float)}, "float64"),
        ({"subject": HAPT["subject"] - 1}, "subjects from 1"),
        ({"X": HAPT["X"] * np.float32(np.nan)}, "finite"),
        ({"X": HAPT["X"][..., 0]}, r"\(45, 16\)"),
        ({"X": HAPT["X"].astype(int)}, "int64"),
        ({"X": HAPT["X"][:4], "y": HAPT["y"][:4], "subject": HAPT["subject"][:4]}, "five or more"),
        ({"subject": None}, "only X.npy, y.npy"),
        ({"X": np.array([{"a": 1}])}, "ValueError"),  # objects would need unpickling
    ],
)
def test_a_damaged_hapt_is_named(tmp_path: Path, write_npz, change, says: str) -> None:
    path = write_npz(tmp_path / "hapt.npz", HAPT, **change)
    with pytest.raises(DataError, match=says) as error:
        data.load("hapt", tmp_path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y": EXTRASENSORY["y"] + 1}, "labels from 0 to 1. Found labels from 1 to 2"),
        ({"user": EXTRASENSORY["user"] - 1}, "users from 0"),
        ({"Z": EXTRASENSORY["Z"] * np.float16(np.inf)}, "infinities"),
        ({"classes": None}, "only"),
    ],
)
def test_a_damaged_extrasensory_is_named(tmp_path: Path, write_npz, change, says: str) -> None:
    path = write_npz(tmp_path / "extrasensory.npz", EXTRASENSORY, **change)
    with pytest.raises(DataError, match=says) as error:
        data.load("extrasensory", tmp_path)
    assert str(path) in str(error.value)
