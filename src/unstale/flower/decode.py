"""Replies from strangers: out of a message come checked arrays, or a reason why not.

Flower carries arrays as NumPy's `.npy` bytes beside a shape and a type that nobody
compares with them. Here the size is looked at first, then the header, and only an
array that is exactly as the model wants it is read; nothing is allocated, unzipped or
unpickled before. Whatever goes wrong is a `RefusedReplyError` with a short code.
"""

import ast
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from unstale.errors import UnstaleError
from unstale.flower.layout import ArrayShape, Layout
from unstale.flower.work_messages import VERSION_KEY
from unstale.server.checks import MOST_EXAMPLES, shown

# Of a client's metrics; more would only fill the log.
MAX_METRICS = 64
MAX_METRIC_NAME = 100

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


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What a client sent, decoded and of the right form (the values are not yet judged)."""

    weights: dict[str, Tensor]
    num_examples: int
    metrics: dict[str, float]


def decode(
    content: RecordDict, layout: Layout, *, version: int, max_bytes: int, examples_key: str
) -> Reply:
    """Return what a reply holds.

    Args:
        content: The records of the reply.
        layout: What the arrays should look like.
        version: The version that was sent to this client; one that the reply names itself
            has to be the same.
        max_bytes: The most that a whole reply may hold.
        examples_key: The metric that says how many examples were used.

    Raises:
        RefusedReplyError: If it is not as it should be, whatever is wrong.
    """
    try:
        _check_size(content, max_bytes)
        arrays = _only(content, ArrayRecord)
        metrics = _only(content, MetricRecord)
        _check_version(content, version)
        num_examples = _num_examples(metrics, examples_key)
        return Reply(
            _weights(arrays, layout), num_examples, _plain_metrics(metrics, {examples_key})
        )
    except RefusedReplyError:
        raise
    except Exception as error:  # a stranger's bytes must never end the run
        raise RefusedReplyError(
            "undecodable", f"A reply should be decodable. Found {shown(error)}."
        ) from error


def decode_metrics(
    content: RecordDict, *, max_bytes: int, examples_key: str
) -> tuple[int, dict[str, float]]:
    """Return the number of examples and the metrics of a reply that carries no arrays.

    Raises:
        RefusedReplyError: If it is not as it should be, whatever is wrong.
    """
    try:
        _check_size(content, max_bytes)
        metrics = _only(content, MetricRecord)
        return _num_examples(metrics, examples_key), _plain_metrics(metrics, {examples_key})
    except RefusedReplyError:
        raise
    except Exception as error:  # as above
        raise RefusedReplyError(
            "undecodable", f"A reply should be decodable. Found {shown(error)}."
        ) from error


def _refuse(code: str, reason: str) -> NoReturn:
    raise RefusedReplyError(code, reason)


def _check_size(content: RecordDict, max_bytes: int) -> None:
    size = sum(_bytes_of(record.items()) for record in content.values())
    if size > max_bytes:
        _refuse(
            "size",
            f"A reply should have at most {max_bytes} bytes (a limit of this server). "
            f"Found {size}.",
        )


def _bytes_of(items: Iterable[tuple[str, Any]]) -> int:
    return sum(len(key) + _bytes_of_value(value) for key, value in items)


def _bytes_of_value(value: Any) -> int:
    if isinstance(value, Array):
        return len(value.data)
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list):
        return sum(map(_bytes_of_value, value))
    return 8


def _only(content: RecordDict, kind: type[Any]) -> Any:
    found = [record for record in content.values() if isinstance(record, kind)]
    if len(found) != 1:
        _refuse(
            "records",
            f"A reply should have exactly one {kind.__name__}. Found {len(found)}, "
            f"in records named {shown([str(name) for name in list(content)[:5]])}.",
        )
    return found[0]


def _check_version(content: RecordDict, version: int) -> None:
    for record in content.values():
        told = record.get(VERSION_KEY, version) if isinstance(record, ConfigRecord) else version
        if type(told) is not int or told != version:
            _refuse(
                "version",
                f"A reply that names its version should name {version}, on which this node was "
                f"set to work. Found {shown(told)}.",
            )


def _num_examples(metrics: Mapping[str, Any], key: str) -> int:
    value = metrics.get(key)
    whole = type(value) is int or (type(value) is float and value.is_integer())
    if not whole or value is None or value < 1:
        _refuse(
            "num_examples",
            f"The metric `{key}` should be a positive whole number. Found {shown(value)}.",
        )
    if value > MOST_EXAMPLES:
        _refuse(
            "num_examples",
            f"The metric `{key}` should be at most {MOST_EXAMPLES}. Found {shown(value)}.",
        )
    return int(value)


def _plain_metrics(metrics: Mapping[str, Any], without: set[str]) -> dict[str, float]:
    """Return the finite single numbers among a client's metrics."""
    plain: dict[str, float] = {}
    for name, value in metrics.items():
        if name in without or len(name) > MAX_METRIC_NAME or len(plain) == MAX_METRICS:
            continue
        if type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value):
            plain[name] = float(value)
    return plain


def _weights(record: Mapping[str, Array], layout: Layout) -> dict[str, Tensor]:
    found = {*record}
    numbered = {str(i): name for i, name in enumerate(layout.names)}
    # A client that works with a list of arrays sends them back by number.
    if found == {*numbered} and found != {*layout.names}:
        record = {numbered[i]: array for i, array in record.items()}
        found = {*record}
    missing, extra = sorted({*layout.parameters} - found), sorted(found - {*layout.names})
    if missing or extra:
        _refuse(
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
        _refuse("dtype", f"`{name}` should travel as {_NUMPY}. Found {shown(array.stype)}.")
    start, dtype, fortran, shape = _header(name, array.data)
    if shape != wanted.shape:
        _refuse("shape", f"`{name}` should have the shape {wanted.shape}. Found {shown(shape)}.")
    if dtype.newbyteorder("=") != wanted.dtype:
        _refuse(
            "dtype",
            f"`{name}` should be {wanted.dtype}. Found {shown(str(dtype))}. "
            "Convert it before sending.",
        )
    if len(array.data) - start != wanted.num_bytes:
        _refuse(
            "payload",
            f"`{name}` should have {wanted.num_bytes} bytes of entries. "
            f"Found {len(array.data) - start}.",
        )
    if tuple(array.shape) != shape or array.dtype not in (str(dtype), str(wanted.dtype)):
        _refuse(
            "metadata",
            f"What a reply says of `{name}` should be so: {wanted.dtype} of shape {shape}. "
            f"It says {shown(array.dtype)} of shape {shown(tuple(array.shape))}.",
        )
    return start, dtype, fortran


def _header(name: str, data: bytes) -> tuple[int, np.dtype[Any], bool, tuple[int, ...]]:
    """Return what an `.npy` header says; read here, since NumPy's reader trusts its size."""
    kind = data[6:8]
    if data[:6] != _MAGIC or kind not in (b"\x01\x00", b"\x02\x00"):
        _refuse("payload", f"`{name}` should be NumPy's .npy bytes. Found {shown(data[:8])}.")
    at, form = (10, "<H") if kind == b"\x01\x00" else (12, "<I")
    length = struct.unpack(form, data[8:at])[0]
    if length > _MAX_HEADER or at + length > len(data):
        _refuse("payload", f"The header of `{name}` should be short and whole. Found {length}.")
    header = ast.literal_eval(data[at : at + length].decode("latin1").strip())
    descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    plain = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    # A list would describe records; only plain numbers have a string.
    if not isinstance(descr, str) or type(fortran) is not bool or not plain:
        _refuse("payload", f"`{name}` should be a plain array. Found {shown(header)}.")
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
