"""What a hostile node sends, one bad reply a round.

Each attack gets honest work and spoils it. The order of `ATTACKS` is that of the rounds.
"""

import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.app import Array as FlowersArray
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from hostile_app.honest import SHAPES, Weights


@dataclass
class Work:
    """An honest reply, and what else an attack may want to know."""

    weights: Weights
    num_examples: int
    version: int
    marker: Path

    def reply(self, **arrays: FlowersArray) -> RecordDict:
        """Return the records of the reply, with some of its arrays replaced."""
        honest = {name: FlowersArray(value) for name, value in self.weights.items()}
        return RecordDict(
            {
                "arrays": ArrayRecord({**honest, **arrays}),
                "metrics": MetricRecord({"num-examples": self.num_examples}),
            }
        )


Attack = Callable[[Work], RecordDict]


# --- values -----------------------------------------------------------------------------


def nan_weights(work: Work) -> RecordDict:
    work.weights["weight"][1, 2] = np.nan
    return work.reply()


def infinite_weights(work: Work) -> RecordDict:
    work.weights["bias"][:] = -np.inf
    return work.reply()


def huge_norm(work: Work) -> RecordDict:
    work.weights["weight"] *= np.float32(1e30)
    return work.reply()


def many_examples(work: Work) -> RecordDict:
    work.num_examples = 10**18
    return work.reply()


def negative_examples(work: Work) -> RecordDict:
    work.num_examples = -10
    return work.reply()


def lie_about_version(work: Work) -> RecordDict:
    reply = work.reply()
    reply["unstale"] = ConfigRecord({"unstale-version": work.version + 1})
    return reply


# --- forms ------------------------------------------------------------------------------


def wrong_shape(work: Work) -> RecordDict:
    """One number, which would be broadcast over the layer."""
    return work.reply(weight=FlowersArray(np.full(1, 9, np.float32)))


def wrong_dtype(work: Work) -> RecordDict:
    return work.reply(weight=FlowersArray(work.weights["weight"].astype(np.float64)))


def no_records(work: Work) -> RecordDict:
    return RecordDict()


def empty_record(work: Work) -> RecordDict:
    return RecordDict({**work.reply(), "arrays": ArrayRecord({})})


# --- bytes ------------------------------------------------------------------------------


def _raw(data: bytes, shape: tuple[int, ...] = SHAPES["weight"]) -> FlowersArray:
    return FlowersArray("float32", shape, "numpy.ndarray", data)


def garbage_bytes(work: Work) -> RecordDict:
    return work.reply(weight=_raw(b"\x00\xff no .npy " * 7))


def lying_metadata(work: Work) -> RecordDict:
    """The array is right, what is said of it is not."""
    return work.reply(weight=_raw(FlowersArray(work.weights["weight"]).data, shape=(4, 3)))


def promise_of_terabytes(work: Work) -> RecordDict:
    """A header for 4 TB, with a few bytes behind it."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**12,)}
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, header)
    return work.reply(weight=_raw(out.getvalue() + bytes(48)))


class _Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def pickled_code(work: Work) -> RecordDict:
    """An array of objects, as NumPy writes it: its entries are a pickle."""
    header = {"descr": "|O", "fortran_order": False, "shape": SHAPES["weight"]}
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, header)
    return work.reply(weight=_raw(out.getvalue() + pickle.dumps(_Touch(work.marker))))


class Array(FlowersArray):
    """An array that describes itself to Flower in a way of its own.

    It has the name of Flower's own class, for by that Flower unpacks it.
    """

    def deflate(self) -> bytes:
        """Return the description that travels: its length comes last in its head."""
        head, divider, body = super().deflate().partition(b"\x00")
        body = self.describe(body)
        return b"%b %d" % (head.rpartition(b" ")[0], len(body)) + divider + body


def _described(work: Work, array: FlowersArray, describe: Callable[[bytes], bytes]) -> RecordDict:
    disguised = Array(array.dtype, array.shape, array.stype, array.data)
    disguised.describe = describe
    reply = work.reply()
    reply["arrays"]["weight"] = disguised  # Flower's constructor would make an honest copy
    return reply


def little_that_unpacks_to_much(work: Work) -> RecordDict:
    """One piece of 64 KiB, of which the array is said to have 2,000: Flower unpacks them all."""
    pieces = json.dumps([0] * 2000).encode()
    return _described(work, _raw(bytes(2**16)), lambda body: body.replace(b"[0]", pieces))


def garbage_message(work: Work) -> RecordDict:
    """An array that Flower itself can't unpack, so that pulling the reply raises."""
    return _described(work, FlowersArray(work.weights["weight"]), lambda body: b"{no JSON")


def garbage_message_again(work: Work) -> RecordDict:
    """The first may have taken others' replies with it; this one must not."""
    return garbage_message(work)


ATTACKS: list[Attack] = [
    nan_weights,
    infinite_weights,
    huge_norm,
    many_examples,
    negative_examples,
    lie_about_version,
    wrong_shape,
    wrong_dtype,
    no_records,
    empty_record,
    garbage_bytes,
    lying_metadata,
    promise_of_terabytes,
    pickled_code,
    little_that_unpacks_to_much,
    garbage_message,
    garbage_message_again,
]
