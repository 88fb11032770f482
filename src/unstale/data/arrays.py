"""HAPT and ExtraSensory: sensor data with a natural user for every sample.

Both are published without a split that keeps every user on both sides, which
federated learning needs. So a fifth is set aside for testing: of every class and
user, the last fifth in time. Neighbouring samples of a recording are alike, and
HAPT's windows even share half their values with the next; choosing at random would
put copies of training samples into the test. What remains is one such neighbour at
the border of each class and user.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.data.dataset import Dataset, int_labels
from unstale.data.faults import check_labels, damaged
from unstale.data.npz import read_npz
from unstale.data.source import Files, Layout, Source
from unstale.data.split import stratified_test_mask

HAPT_CLASSES = (
    "WALKING",
    "WALKING_UPSTAIRS",
    "WALKING_DOWNSTAIRS",
    "SITTING",
    "STANDING",
    "LAYING",
    "STAND_TO_SIT",
    "SIT_TO_STAND",
    "SIT_TO_LIE",
    "LIE_TO_SIT",
    "STAND_TO_LIE",
    "LIE_TO_STAND",
)
HAPT_BOUND = 10.0
EXTRASENSORY_BOUND = 20.0


def read_hapt(files: Files) -> Dataset:
    """Return HAPT as [6, 128]: accelerometer and gyroscope, x, y, z, at 50 Hz.

    Each channel is standardised by mean and deviation of the training part and
    clipped to ±10 deviations (one value in 60,000), so that the bounds are a
    choice and not read off the data. The last six classes are transitions with 12
    to 112 samples each, 2 to 23 of them for testing: accuracies of these classes
    alone mean little.
    """
    path = files["hapt.npz"]
    windows, labels, subjects = read_npz(path, "X", "y", "subject")
    _check(path, windows, 3, labels, subjects)
    check_labels(path, int(labels.min()), int(labels.max()), 1, len(HAPT_CLASSES))
    if int(subjects.min()) < 1 or not np.isfinite(windows).all():
        raise damaged(path, "hold finite X and subjects from 1", "other values")
    labels, subjects = labels.astype(np.int64) - 1, subjects.astype(np.int64) - 1
    test = _last_fifth(labels, subjects)
    train = windows[~test].astype(np.float64)
    mean, deviation = train.mean((0, 1)), train.std((0, 1))
    scaled = (windows - mean) / np.where(deviation > 0, deviation, 1.0)
    x = np.clip(scaled, -HAPT_BOUND, HAPT_BOUND).transpose(0, 2, 1)
    return _dataset("hapt", x, labels, subjects, test, HAPT_CLASSES, HAPT_BOUND)


def read_extrasensory(files: Files) -> Dataset:
    """Return ExtraSensory as [225]: features of phone and watch, one sample a minute.

    The file holds them standardised (by all its samples) and clipped to ±20. A
    fifth of all values is missing (NaN), wherever a sensor was off; they become 0,
    the mean. Classes are uneven: of 141,133 samples 599 are running and 2,667
    bicycling, and many users never do either.
    """
    path = files["extrasensory.npz"]
    features, labels, users, classes = read_npz(path, "Z", "y", "user", "classes")
    _check(path, features, 2, labels, users)
    check_labels(path, int(labels.min()), int(labels.max()), 0, len(classes) - 1)
    if int(users.min()) < 0 or np.isinf(features).any():
        raise damaged(path, "hold Z without infinities and users from 0", "other values")
    labels, users = labels.astype(np.int64), users.astype(np.int64)
    x = np.nan_to_num(features.astype(np.float32), nan=0.0)
    x = np.clip(x, -EXTRASENSORY_BOUND, EXTRASENSORY_BOUND)
    test = _last_fifth(labels, users)
    names = tuple(str(name) for name in classes)
    return _dataset("extrasensory", x, labels, users, test, names, EXTRASENSORY_BOUND)


def _check(
    path: Path, values: NDArray[Any], dims: int, labels: NDArray[Any], users: NDArray[Any]
) -> None:
    """Refuse arrays that are not one float sample, label and user per row."""
    fits = (
        values.ndim == dims
        and values.dtype.kind == "f"
        and labels.dtype.kind in "iu"
        and users.dtype.kind in "iu"
        and labels.shape == users.shape == (len(values),)
        and len(values) >= 5  # a fifth of them is tested
    )
    if not fits:
        raise damaged(
            path,
            f"hold five or more float samples of {dims - 1} dimensions, a label and a user each",
            f"{values.dtype} {values.shape}, labels {labels.dtype} {labels.shape} "
            f"and users {users.dtype} {users.shape}",
        )


def _last_fifth(labels: NDArray[np.int64], users: NDArray[np.int64]) -> NDArray[np.bool_]:
    # Both files are in order of time within a user.
    return stratified_test_mask(labels, np.arange(len(labels)), len(labels) // 5, users)


def _dataset(
    name: str,
    x: NDArray[Any],
    labels: NDArray[np.int64],
    users: NDArray[np.int64],
    test: NDArray[np.bool_],
    classes: tuple[str, ...],
    bound: float,
) -> Dataset:
    import torch

    return Dataset(
        name=name,
        x_train=torch.from_numpy(np.array(x[~test], dtype=np.float32, order="C")),
        y_train=int_labels(labels[~test]),
        x_test=torch.from_numpy(np.array(x[test], dtype=np.float32, order="C")),
        y_test=int_labels(labels[test]),
        classes=classes,
        low=-bound,
        high=bound,
        users_train=int_labels(users[~test]),
    )


HAPT = Source(
    summary="motion of 30 people, windows [6, 128] at 50 Hz: 8,289 + 2,072, 12 classes",
    layouts=(
        Layout(
            read_hapt,
            {"hapt.npz": "sha256:bbe0fdb5a72b1ff50676a8da5676c86c64231a62f1314162b461911b37642b21"},
            (".", "hapt"),
        ),
    ),
    obtain=(
        "hapt.npz is made from UCI's 'Smartphone-Based Recognition of Human Activities and "
        "Postural Transitions' (RawData): windows of 128 at steps of 64 as X [samples, 128, 6] "
        "float32, y 1..12, subject 1..30, saved with numpy.savez."
    ),
)

EXTRASENSORY = Source(
    summary="225 features of phone and watch of 37 people: 112,907 + 28,226, 6 classes",
    layouts=(
        Layout(
            read_extrasensory,
            {
                "extrasensory.npz": "sha256:"
                "40c804b252020a402e322c834a3ed85efcc9971cb76bc85a5ad692fd0f7da2e7"
            },
            (".", "extrasensory"),
        ),
    ),
    obtain=(
        "extrasensory.npz is made from the features and labels of "
        "http://extrasensory.ucsd.edu: Z [samples, 225] standardised and clipped to ±20, "
        "y with classes, user from 0, saved with numpy.savez."
    ),
)
