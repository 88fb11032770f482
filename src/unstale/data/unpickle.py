"""Reading CIFAR-10's pickled batches without running anything that a pickle names.

A pickle is a program that can import and call any function. This reader imports nothing.
The few names that a batch of arrays needs are replaced by small classes that only record
their arguments; any other name is an error. Not even NumPy's constructors are called with
values from the file.
"""

import pickle
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.data.faults import damaged


class _PickledDtype:
    """Replaces ``numpy.dtype``; records the type code only."""

    def __init__(self, code: str | bytes, *flags: object) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code

    def __setstate__(self, state: object) -> None:
        """Ignore byte order and alignment: a single byte has neither."""


class _PickledArray:
    """Replaces an array until its state has been read."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def to_bytes_array(self) -> NDArray[np.uint8]:
        """Return the array, which must be one of unsigned bytes."""
        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _PickledDtype) or dtype.code != "u1" or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array that is not of unsigned bytes")
        return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*arguments: object) -> _PickledArray:
    return _PickledArray()


def _latin1_bytes(text: str, encoding: str) -> bytes:
    """Replace ``_codecs.encode``, with which Python 3 pickles bytes in old protocols."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): "the type of array, of which there is only one",
    ("numpy", "dtype"): _PickledDtype,
    ("_codecs", "encode"): _latin1_bytes,
}


class _AllowListUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return the replacement of a name, or raise an error. Nothing is ever imported."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"the name {module}.{name}, which is not allowed")
        return _ALLOWED[module, name]


def read_pickled_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return ``data`` and ``labels`` of a batch in CIFAR's python format.

    Raises:
        DataError: When the file is no such batch or names anything but arrays of bytes.
    """
    should = "be a pickled batch with 'data' (an array of bytes) and 'labels' (a list of numbers)"
    content = path.read_bytes()
    try:
        # The published files come from Python 2, whose text is our bytes.
        batch = _AllowListUnpickler(BytesIO(content), encoding="bytes").load()
        entries = {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in batch.items()}
        data = entries["data"].to_bytes_array()
        labels = np.array([_plain_int(label) for label in entries["labels"]], dtype=np.int64)
    # A damaged or hostile pickle can raise any exception.
    except Exception as error:
        raise damaged(path, should, f"{type(error).__name__}: {error}") from error
    return data, labels


def _plain_int(label: object) -> int:
    if type(label) is not int:
        raise pickle.UnpicklingError(f"a label of type {type(label).__name__}")
    return label
