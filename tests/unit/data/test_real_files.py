"""The published files themselves, wherever UNSTALE_DATA says that they are."""

import os
from pathlib import Path

import pytest
import torch

from unstale import data

ROOT = os.environ.get("UNSTALE_DATA")

pytestmark = pytest.mark.skipif(not ROOT, reason="UNSTALE_DATA names no published files")

EXPECTED = {
    "mnist": ((1, 28, 28), 60_000, 10_000, 5_421),
    "fashion_mnist": ((1, 28, 28), 60_000, 10_000, 6_000),
    "cifar10": ((3, 32, 32), 50_000, 10_000, 5_000),
    "svhn": ((3, 32, 32), 73_257, 26_032, 6_882),
    "hapt": ((6, 128), 8_289, 2_072, 1_528),
    "extrasensory": ((225,), 112_907, 28_226, 2_133),
    "disaster": ((3, 64, 64), 5_640, 1_409, None),
    "blended_mnist": ((1, 28, 28), 60_000, 10_000, 5_421),
    "grey_svhn": ((1, 28, 28), 73_257, 26_032, 6_882),
}


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTALE_DATA", str(ROOT))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_published_set(name: str, root: None) -> None:
    finding = data.check_one(name)
    if finding.status == "missing":
        pytest.skip(f"{name} is not at {Path(finding.where).name}")
    assert finding.status == "verified"
    loaded = data.load(name)
    shape, train, test, fives = EXPECTED[name]
    assert (loaded.input_shape, len(loaded.y_train), len(loaded.y_test)) == (shape, train, test)
    counts = torch.bincount(loaded.y_train, minlength=loaded.num_classes)
    if fives is not None:
        assert int(counts[5]) == fives
    assert bool((counts > 0).all())
    assert bool((torch.bincount(loaded.y_test, minlength=loaded.num_classes) > 0).all())
