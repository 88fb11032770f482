"""A model's weights as the arrays that Flower carries, and back again.

Flower carries arrays as NumPy's `.npy` bytes beside a shape and a type that nobody
compares with them. On the way in, the header is read first, and only an array that is
exactly as the model wants it is read; nothing is allocated, unzipped or unpickled before.
"""

import ast
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor, nn

from unstale.errors import ConfigError, UnstaleError
from unstale.params import Params
from unstale.server.checks import shown

_NUMPY = "numpy.ndarray"
_MAGIC = b"\x93NUMPY"
# A header names type, order and shape; NumPy's own are 118 bytes for all common arrays.
_MAX_HEADER = 2048


class RefusedReplyError(UnstaleError):
    """A reply cannot be taken."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """What one array of a reply should look like."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def num_bytes(self) -> int:
        """What its entries take."""
        return math.prod(self.shape) * self.dtype.itemsize


class Layout:
    """The names, shapes and types of a model's state, and how weights become a record.

    Clients load what they get with `load_state_dict`, so all names of the state travel:
    the parameters, other names of shared ones, and buffers. Those that are no running
    statistics of clients never change.

    Args:
        model: The model.
        statistics: The buffers that clients change and the server averages, by name.

    Raises:
        ConfigError: If the state holds something that Flower cannot carry.

    Example:
        >>> layout = Layout(nn.Linear(2, 1))
        >>> layout.names, layout.arrays["bias"].shape
        (('weight', 'bias'), (1,))
    """

    def __init__(self, model: nn.Module, statistics: Iterable[str] = ()) -> None:
        carried = frozenset(statistics)
        first = {id(p): name for name, p in model.named_parameters()}
        every = dict(model.named_parameters(remove_duplicate=False))
        self._parameter_of: dict[str, str] = {}
        self._constants: dict[str, Array] = {}
        self.arrays: dict[str, ArrayShape] = {}
        for name, value in model.state_dict().items():
            if not isinstance(value, Tensor):
                raise ConfigError(
                    "The state of a model on Flower should be made of tensors. Found "
                    f"{type(value).__name__} in `{name}`. Keep it out of the state."
                )
            if name in every:
                self._parameter_of[name] = first[id(every[name])]
            elif name in carried:
                self._parameter_of[name] = name
            else:
                self._constants[name] = Array(_as_numpy(name, value))
            self.arrays[name] = ArrayShape(
                tuple(value.shape), _as_numpy(name, value.new_empty(0)).dtype
            )
        self.names = tuple(self.arrays)
        self.parameters = tuple(name for name, p in self._parameter_of.items() if name == p)
        # A parameter that is no part of the state (a module may say so) could never be sent.
        if missing := sorted(set(first.values()) - set(self.parameters)):
            raise ConfigError(
                f"Every parameter should be in the model's state. Missing: {missing[:5]}."
            )

    @property
    def num_bytes(self) -> int:
        """What all arrays take."""
        return sum(array.num_bytes for array in self.arrays.values())

    def encode(self, params: Params) -> ArrayRecord:
        """Return weights as the record that clients get."""
        sent = {name: Array(_as_numpy(name, params[name])) for name in self.parameters}
        return ArrayRecord(
            {
                name: sent[self._parameter_of[name]]
                if name in self._parameter_of
                else self._constants[name]
                for name in self.names
            }
        )


def _as_numpy(name: str, value: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    try:
        return np.ascontiguousarray(value.detach().cpu().numpy()).reshape(tuple(value.shape))
    except (TypeError, RuntimeError) as error:
        raise ConfigError(
            f"Flower carries arrays of NumPy's types. `{name}` is {value.dtype}, which NumPy "
            "does not know. Use float32, float64 or float16."
        ) from error


def weights_in(record: ArrayRecord, layout: Layout, like: nn.Module) -> dict[str, Tensor]:
    """Return a record of our own, such as the initial arrays, as parameters of a model.

    Raises:
        ConfigError: If it does not fit the model.
    """
    wanted = {**dict(like.named_buffers()), **dict(like.named_parameters())}
    found = {name: torch.from_numpy(array.numpy()) for name, array in record.items()}
    odd = sorted({*found} ^ {*layout.names}) or [
        n for n in layout.parameters if found[n].shape != wanted[n].shape
    ]
    if odd:
        raise ConfigError(
            "`initial_arrays` should be the state of the model that the strategy was given. "
            f"Found other names or shapes in {odd[:5]}. Pass the same model, or leave it out."
        )
    return {name: found[name].to(wanted[name]) for name in layout.parameters}


def read_weights(record: Mapping[str, Array], layout: Layout) -> dict[str, Tensor]:
    """Return parameters and statistics in a stranger's record; other buffers are checked only.

    Raises:
        RefusedReplyError: If an array is not as the model wants it.
    """
    found = {*record}
    numbered = {str(i): name for i, name in enumerate(layout.names)}
    # A client that works with a list of arrays sends them back by number.
    if found == {*numbered} and found != {*layout.names}:
        record = {numbered[i]: array for i, array in record.items()}
        found = {*record}
    missing, extra = sorted({*layout.parameters} - found), sorted(found - {*layout.names})
    if missing or extra:
        raise RefusedReplyError(
            "names",
            f"The arrays of a reply should have the model's {len(layout.names)} names. "
            f"Missing: {shown(missing[:5])}. Not in the model: {shown(extra[:5])}.",
        )
    # All headers before the first array: a reply is taken whole or not at all.
    starts = {name: _check_array(name, record[name], layout.arrays[name]) for name in record}
    return {
        name: _read(record[name].data, *starts[name], layout.arrays[name])
        for name in layout.parameters
    }


def _check_array(name: str, array: Array, wanted: ArrayShape) -> tuple[int, np.dtype[Any], bool]:
    """Return where the entries of an array begin, in which type and order they are."""
    if array.stype != _NUMPY:
        raise RefusedReplyError(
            "dtype", f"`{name}` should travel as {_NUMPY}. Found {shown(array.stype)}."
        )
    start, dtype, fortran, shape = _header(name, array.data)
    if shape != wanted.shape:
        raise RefusedReplyError(
            "shape", f"`{name}` should have the shape {wanted.shape}. Found {shown(shape)}."
        )
    if dtype.newbyteorder("=") != wanted.dtype:
        raise RefusedReplyError(
            "dtype",
            f"`{name}` should be {wanted.dtype}. Found {shown(str(dtype))}. "
            "Convert it before sending.",
        )
    if len(array.data) - start != wanted.num_bytes:
        raise RefusedReplyError(
            "payload",
            f"`{name}` should have {wanted.num_bytes} bytes of entries. "
            f"Found {len(array.data) - start}.",
        )
    if tuple(array.shape) != shape or array.dtype not in (str(dtype), str(wanted.dtype)):
        raise RefusedReplyError(
            "metadata",
            f"What a reply says of `{name}` should be so: {wanted.dtype} of shape {shape}. "
            f"It says {shown(array.dtype)} of shape {shown(tuple(array.shape))}.",
        )
    return start, dtype, fortran


def _header(name: str, data: bytes) -> tuple[int, np.dtype[Any], bool, tuple[int, ...]]:
    """Return what an `.npy` header says; read here, since NumPy's reader trusts its size."""
    kind = data[6:8]
    if data[:6] != _MAGIC or kind not in (b"\x01\x00", b"\x02\x00"):
        raise RefusedReplyError(
            "payload", f"`{name}` should be NumPy's .npy bytes. Found {shown(data[:8])}."
        )
    at, form = (10, "<H") if kind == b"\x01\x00" else (12, "<I")
    length = struct.unpack(form, data[8:at])[0]
    if length > _MAX_HEADER or at + length > len(data):
        raise RefusedReplyError(
            "payload", f"The header of `{name}` should be short and whole. Found {length}."
        )
    header = ast.literal_eval(data[at : at + length].decode("latin1").strip())
    descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    plain = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    # A list would describe records; only plain numbers have a string.
    if not isinstance(descr, str) or type(fortran) is not bool or not plain:
        raise RefusedReplyError(
            "payload", f"`{name}` should be a plain array. Found {shown(header)}."
        )
    return at + length, np.dtype(descr), fortran, shape


def _read(
    data: bytes, start: int, dtype: np.dtype[Any], fortran: bool, wanted: ArrayShape
) -> Tensor:
    count = wanted.num_bytes // dtype.itemsize
    if count == 0:
        return torch.from_numpy(np.empty(wanted.shape, wanted.dtype))
    flat = np.frombuffer(data, dtype, count, start)
    shaped = flat.reshape(wanted.shape, order="F" if fortran else "C")
    # A copy in this machine's byte order: the bytes are Flower's.
    return torch.from_numpy(np.array(shaped, dtype=wanted.dtype, order="C"))
