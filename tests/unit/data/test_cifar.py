import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from unstale import data
from unstale.data.unpickle import read_pickled_batch
from unstale.errors import DataError

NAMES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 2, 3072), dtype=np.uint8)
LABELS = np.arange(12, dtype=np.uint8).reshape(6, 2) % 10


def write_binary(root: Path) -> Path:
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, pixels, labels in zip(NAMES, PIXELS, LABELS, strict=True):
        (folder / f"{name}.bin").write_bytes(np.hstack([labels[:, None], pixels]).tobytes())
    return folder


def pickled(pixels: object, labels: object, protocol: int = 2, text: bool = False) -> bytes:
    batch = {"batch_label": "one", "labels": labels, "data": pixels, "filenames": ["a.png"] * 2}
    if not text:
        batch = {k.encode(): v for k, v in batch.items()}
        batch[b"filenames"] = [b"\xe9.png"] * 2  # bytes by way of _codecs.encode
    return pickle.dumps(batch, protocol=protocol)


def write_python(root: Path) -> Path:
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for i, name in enumerate(NAMES):
        # Every way in which a batch may have been written again.
        content = pickled(
            PIXELS[i], LABELS[i].tolist(), protocol=(0, 1, 2, 3, 4, 2)[i], text=i == 2
        )
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_a_written_set_is_read_back(tmp_path: Path, write) -> None:
    write(tmp_path)
    cifar = data.load("cifar10", tmp_path)
    assert cifar.input_shape == (3, 32, 32)
    expected = torch.from_numpy(PIXELS).float().div(255).reshape(6, 2, 3, 32, 32)
    assert torch.equal(cifar.x_train, expected[:5].reshape(10, 3, 32, 32))
    assert torch.equal(cifar.x_test, expected[5])
    assert cifar.y_train.tolist() == LABELS[:5].reshape(-1).tolist()
    assert cifar.y_test.tolist() == [0, 1]
    assert cifar.classes[2] == "bird"


def test_the_binary_format_is_preferred(tmp_path: Path) -> None:
    write_python(tmp_path)
    write_binary(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"never opened")
    assert len(data.load("cifar10", tmp_path).y_train) == 10


def python2_batch() -> bytes:
    """Write a batch opcode by opcode as Python 2 did, whose text is bytes."""
    raw = PIXELS[0].tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R"
        b"(K\1K\2M\0\x0c\x86cnumpy\ndtype\nU\2u1K\0K\1\x87R"
        b"(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T"
        + struct.pack("<i", len(raw))
        + raw
        + b"tb"
    )
    return b"\x80\2}(U\4data" + array + b"U\6labels](K\3K\7eu."


def test_python_2_pickles_as_published(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(python2_batch())
    pixels, labels = read_pickled_batch(path)
    assert np.array_equal(pixels, PIXELS[0])
    assert labels.tolist() == [3, 7]


def test_arrays_in_fortran_order(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickled(np.asfortranarray(PIXELS[0]), [1, 2]))
    assert np.array_equal(read_pickled_batch(path)[0], PIXELS[0])


class Runs:
    """Unpickles by calling a function with arguments of the attacker's choice."""

    def __init__(self, function, *arguments) -> None:
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    folder = write_python(tmp_path)
    witness = tmp_path / "it-ran"
    path = folder / "data_batch_3"
    path.write_bytes(pickled(Runs(os.system, f"touch {witness}"), [1, 2]))
    with pytest.raises(DataError, match=r"system, which is not allowed") as error:
        data.load("cifar10", tmp_path)
    assert str(path) in str(error.value)
    assert not witness.exists()
    # The witness works: an ordinary unpickler does run it.
    pickle.loads(path.read_bytes())  # noqa: S301 -- our own, and it only touches a file
    assert witness.exists()


@pytest.mark.parametrize(
    "evil",
    [
        Runs(eval, "1"),
        Runs(getattr, "", "join"),
        Runs(np.frombuffer, b"12"),
        Runs(np.zeros, (2, 3072), "u1"),
        Runs(np.ndarray, (10**9,)),  # a name that is allowed, but not as something to call
        np.array([object()]),
        np.zeros((2, 3072)),
        "text",
        None,
    ],
)
def test_whatever_is_no_array_of_bytes_is_refused(tmp_path: Path, evil: object) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickled(evil, [1, 2]))
    with pytest.raises(DataError, match="pickled batch") as error:
        read_pickled_batch(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        python2_batch()[:-900],
        pickled(PIXELS[0], [1.5, 2]),
        pickled(PIXELS[0], [True, 2]),
        pickled(PIXELS[0], [10**30, 2]),
        pickled(PIXELS[0], 3),
        pickle.dumps([1, 2]),
        pickle.dumps({b"data": 1}),
        python2_batch().replace(b"K\2M\0\x0c\x86", b"K\3M\0\x0c\x86"),  # 3 rows, bytes for 2
        b"\x80\2c_codecs\nencode\nX\1\0\0\0aX\4\0\0\0zlib\x86R.",  # another codec than latin1
    ],
)
def test_damaged_pickles_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "batch"
    path.write_bytes(content)
    with pytest.raises(DataError, match="pickled batch"):
        read_pickled_batch(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "0 bytes"),
        (bytes(3073 + 1), "3074 bytes"),
        (bytes([10]) + bytes(3072), "labels from 10 to 10"),
    ],
)
def test_a_damaged_binary_file_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = write_binary(tmp_path) / "test_batch.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match=says) as error:
        data.load("cifar10", tmp_path)
    assert str(path) in str(error.value)


def test_counts_of_a_python_batch_must_agree(tmp_path: Path) -> None:
    path = write_python(tmp_path) / "data_batch_2"
    path.write_bytes(pickled(PIXELS[0], [1, 2, 3]))
    with pytest.raises(DataError, match=r"data_batch_2.*and 3 labels"):
        data.load("cifar10", tmp_path)
    path.write_bytes(pickled(PIXELS[0][:, :100], [1, 2]))
    with pytest.raises(DataError, match=r"data_batch_2.*\(2, 100\)"):
        data.load("cifar10", tmp_path)
