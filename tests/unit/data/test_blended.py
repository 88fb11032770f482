import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from unstale import data
from unstale.data.blended import LUMA, blend
from unstale.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
DIGITS = RNG.integers(0, 256, (5, 28, 28), dtype=np.uint8)
LABELS = np.array([7, 0, 9, 7, 3], dtype=np.uint8)
PHOTOGRAPHS = RNG.integers(0, 256, (6, 2, 3, 32, 32), dtype=np.uint8)


def write_mnist(root: Path, digits: np.ndarray = DIGITS) -> None:
    folder = root / "mnist" / "raw"
    folder.mkdir(parents=True)
    for prefix, count in (("train", 5), ("t10k", 3)):
        for name, array in (("images-idx3", digits[:count]), ("labels-idx1", LABELS[:count])):
            head = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            path = folder / f"{prefix}-{name}-ubyte.gz"
            path.write_bytes(gzip.compress(head + array.tobytes()))


def write_cifar(root: Path) -> None:
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name, pictures in zip(names, PHOTOGRAPHS, strict=True):
        records = np.hstack([np.zeros((2, 1), np.uint8), pictures.reshape(2, -1)])
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def crops_of(photographs: np.ndarray):
    """Every crop of 28×28 of every photograph, in [0, 1]."""
    for photograph in photographs.reshape(-1, 3, 32, 32) / 255:
        for top in range(5):
            for left in range(5):
                yield photograph[:, top : top + 28, left : left + 28]


def test_every_digit_is_blended_into_a_crop_of_a_photograph_of_its_part(tmp_path):
    write_mnist(tmp_path)
    write_cifar(tmp_path)
    blended = data.load("blended_mnist", tmp_path)
    assert (blended.name, blended.input_shape) == ("blended_mnist", (1, 28, 28))
    assert blended.y_train.tolist() == LABELS.tolist()
    assert blended.y_test.tolist() == LABELS[:3].tolist()
    for x, photographs in ((blended.x_train, PHOTOGRAPHS[:5]), (blended.x_test, PHOTOGRAPHS[5:])):
        crops = np.stack(list(crops_of(photographs)))
        for picture, digit in zip(x.double().numpy(), DIGITS / 255, strict=False):
            wanted = np.einsum("c,ncij->nij", LUMA, np.abs(crops - digit))
            found = picture[0] * 0.3081 + 0.1307
            assert np.abs(wanted - found).max((1, 2)).min() < 1e-5


def test_it_is_the_same_at_every_load_and_fits_to_mnist(tmp_path):
    write_mnist(tmp_path)
    write_cifar(tmp_path)
    first, second = (data.load("blended_mnist", tmp_path) for _ in range(2))
    assert torch.equal(first.x_train, second.x_train)
    assert torch.equal(first.x_test, second.x_test)
    mnist = data.load("mnist", tmp_path)
    assert (first.low, first.high, first.classes) == (mnist.low, mnist.high, mnist.classes)
    joined = data.join_looks(mnist, first)
    assert joined.looks == (data.Look("mnist", 5, 3), data.Look("blended_mnist", 5, 3))
    assert torch.equal(joined.x_train, torch.cat([mnist.x_train, first.x_train]))


def test_blending_in_chunks_is_blending_at_once(monkeypatch):
    digits, photographs = torch.rand(7, 1, 4, 5), torch.rand(3, 3, 6, 6)

    def blended():
        return blend(digits, photographs, torch.Generator().manual_seed(1))

    whole = blended()
    monkeypatch.setattr("unstale.data.blended.CHUNK", 2)
    assert torch.equal(blended(), whole)


def test_photographs_and_their_places_vary():
    black = torch.zeros(200, 1, 2, 2)
    photographs = torch.arange(27.0).reshape(3, 1, 3, 3).expand(3, 3, 3, 3) / 27
    corners = blend(black, photographs, torch.Generator().manual_seed(0))[:, 0, 0, 0] * 27
    found = sorted({round(float(corner)) for corner in corners})
    assert found == [0, 1, 3, 4, 9, 10, 12, 13, 18, 19, 21, 22]


def test_what_is_missing_is_named(tmp_path):
    for missing in ("mnist", "cifar10"):
        with pytest.raises(DataError, match=f"'blended_mnist' is made from.*fetch {missing}"):
            data.load("blended_mnist", tmp_path)
        finding = data.check_one("blended_mnist", tmp_path)
        assert finding.status == "missing"
        assert f"unstale data fetch {missing}" in finding.detail
        if missing == "mnist":
            assert "unstale data fetch cifar10" in finding.detail
            write_mnist(tmp_path)
    write_cifar(tmp_path)
    finding = data.check_one("blended_mnist", tmp_path)
    assert finding.status == "unverified"  # not the published files
    assert "'mnist' is unverified" in finding.detail


def test_digits_that_are_too_large(tmp_path):
    write_mnist(tmp_path, RNG.integers(0, 256, (5, 33, 28), dtype=np.uint8))
    write_cifar(tmp_path)
    with pytest.raises(DataError, match=r"fit into photographs of \(32, 32\). Found .*\(33, 28\)"):
        data.load("blended_mnist", tmp_path)


def test_fetching_fetches_what_it_is_made_from(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "unstale.data.fetching._bring", lambda download, root, *rest: asked.append(download.path)
    )
    assert data.fetch("blended_mnist", tmp_path) == tmp_path
    assert len([path for path in asked if path.startswith("mnist/")]) == 4
    assert "cifar-10-binary.tar.gz" in asked


def test_svhn_in_grey_has_the_form_of_mnist(tmp_path):
    (tmp_path / "svhn").mkdir()
    pixels = np.zeros((32, 32, 3, 2), dtype=np.uint8)
    pixels[..., 0, 0] = 255  # red all over
    pixels[16:, :, :, 1] = 255  # white below, black above
    for part in ("train", "test"):
        path = tmp_path / "svhn" / f"{part}_32x32.mat"
        savemat(path, {"X": pixels, "y": np.array([[3], [10]], dtype=np.uint8)})
    grey = data.load("grey_svhn", tmp_path)
    assert grey.input_shape == (1, 28, 28)
    assert grey.y_train.tolist() == [3, 0]
    red = (0.299 - 0.1307) / 0.3081
    torch.testing.assert_close(grey.x_train[0], torch.full((1, 28, 28), red))
    torch.testing.assert_close(grey.x_train[1, :, :13], torch.full((1, 13, 28), grey.low))
    torch.testing.assert_close(grey.x_train[1, :, 15:], torch.full((1, 13, 28), grey.high))


def test_a_derived_set_is_made_from_others():
    with pytest.raises(ConfigError, match="made from others"):
        data.Derived("nothing", (), lambda parts: parts["none"])


def flat(name: str, features: int = 3, classes: str = "ab", **more: object) -> data.Dataset:
    x, y = torch.zeros(4, features), torch.tensor([0, 1, 0, 1])
    return data.Dataset(name, x, y, x[:2], y[:2], tuple(classes), 0.0, 1.0, **more)


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (flat("b", features=4), r"one shape. Found \(3,\) in 'a' and \(4,\) in 'b'"),
        (flat("b", classes="ac"), r"the same classes. Found"),
        (flat("b", users_train=torch.tensor([0, 0, 1, 1])), "'b', which has users"),
        (data.join_looks(flat("b"), flat("c")), "'b', which has two looks"),
    ],
)
def test_looks_that_do_not_fit(new, says):
    with pytest.raises(ConfigError, match=says):
        data.join_looks(flat("a"), new)


@pytest.mark.parametrize(
    "looks",
    [
        (data.Look("a", 4, 2),),
        (data.Look("a", 1, 1), data.Look("b", 2, 1)),
        (data.Look("a", 2, 2), data.Look("b", 2, 1)),
    ],
)
def test_looks_add_up_to_the_samples(looks):
    with pytest.raises(DataError, match="two whose samples add up to 4 and 2"):
        flat("a", looks=looks)
