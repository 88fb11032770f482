"""Decoding of replies: out of a stranger's message come weights and numbers, or a refusal.

The size is looked at first, then the records, the version and the number of examples, then
the arrays (`arrays.py`). Whatever goes wrong is a `RefusedReplyError` with a short code.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from unstale.errors import ConfigError
from unstale.flower.arrays import Layout, RefusedReplyError, read_weights
from unstale.flower.kept_records import records_as_json
from unstale.flower.messages import VERSION_KEY
from unstale.flower.waiting import check_seconds
from unstale.server.checks import MOST_EXAMPLES, shown

# Of a client's metrics; more would only fill the log.
MAX_METRICS = 64
MAX_METRIC_NAME = 100
# The default limit of a reply is twice the model and this much for metrics and headers.
_ROOM = 2**20


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """Bounds on the reply of a node, apart from those on its update (`unstale.Limits`)."""

    max_bytes: int | None = None
    """The most bytes that one reply may hold; None for twice the model's size and 1 MiB. A
    larger reply is refused without being decoded."""
    longest_lateness: float | None = None
    """Seconds within which a reply must come; None for no limit."""

    def __post_init__(self) -> None:
        if self.max_bytes is not None and (type(self.max_bytes) is not int or self.max_bytes < 1):
            raise ConfigError(
                "`max_bytes` should be a whole number of at least 1, or None for twice the "
                f"model's size. Found {self.max_bytes!r}."
            )
        if self.longest_lateness is not None:
            check_seconds("longest_lateness", self.longest_lateness)


@dataclass(frozen=True, slots=True, eq=False)
class ReplyForm:
    """What a reply to a model's messages should look like."""

    layout: Layout
    """The arrays."""
    max_bytes: int
    """The most bytes that one reply may hold."""
    examples_key: str = "num-examples"
    """The metric in which a client says how many examples it used."""
    keeps_records: bool = False
    """Whether all that a client sends beside the arrays is kept until its update is used."""

    @classmethod
    def under(
        cls,
        limits: ReplyLimits,
        layout: Layout,
        examples_key: str,
        *,
        keeps_records: bool = False,
    ) -> "ReplyForm":
        """Return the form of replies under some limits, for a model of that layout."""
        max_bytes = limits.max_bytes or 2 * layout.num_bytes + _ROOM
        return cls(layout, max_bytes, examples_key, keeps_records)


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What a client sent, decoded and of the right form (the values are not yet judged)."""

    weights: dict[str, Tensor]
    num_examples: int
    metrics: dict[str, float]
    records: dict[str, Any] | None = None


def decode(content: RecordDict, form: ReplyForm, *, version: int) -> Reply:
    """Return what a reply to training holds.

    Args:
        content: The records of the reply.
        form: What it should look like.
        version: The version that was sent to this client; one that the reply names itself
            has to be the same.

    Raises:
        RefusedReplyError: If it is not as it should be, whatever is wrong.
    """
    try:
        _check_size(content, form.max_bytes)
        arrays = _only(content, ArrayRecord)
        metrics = _only(content, MetricRecord)
        _check_version(content, version)
        num_examples = _num_examples(metrics, form.examples_key)
        weights = read_weights(arrays, form.layout)
        plain = _plain_metrics(metrics, {form.examples_key})
        records = records_as_json(content) if form.keeps_records else None
        return Reply(weights, num_examples, plain, records)
    except RefusedReplyError:
        raise
    except Exception as error:  # a stranger's bytes must never end the run
        raise RefusedReplyError(
            "undecodable", f"A reply should be decodable. Found {shown(error)}."
        ) from error


def decode_metrics(content: RecordDict, form: ReplyForm) -> tuple[int, dict[str, float]]:
    """Return the number of examples and the metrics of a reply that carries no arrays.

    Raises:
        RefusedReplyError: If it is not as it should be, whatever is wrong.
    """
    try:
        _check_size(content, form.max_bytes)
        metrics = _only(content, MetricRecord)
        key = form.examples_key
        return _num_examples(metrics, key), _plain_metrics(metrics, {key})
    except RefusedReplyError:
        raise
    except Exception as error:  # as above
        raise RefusedReplyError(
            "undecodable", f"A reply should be decodable. Found {shown(error)}."
        ) from error


def _check_size(content: RecordDict, max_bytes: int) -> None:
    size = sum(_bytes_of(record.items()) for record in content.values())
    if size > max_bytes:
        raise RefusedReplyError(
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
        raise RefusedReplyError(
            "records",
            f"A reply should have exactly one {kind.__name__}. Found {len(found)}, "
            f"in records named {shown([str(name) for name in list(content)[:5]])}.",
        )
    return found[0]


def _check_version(content: RecordDict, version: int) -> None:
    for record in content.values():
        told = record.get(VERSION_KEY, version) if isinstance(record, ConfigRecord) else version
        if type(told) is not int or told != version:
            raise RefusedReplyError(
                "version",
                f"A reply that names its version should name {version}, on which this node was "
                f"set to work. Found {shown(told)}.",
            )


def _num_examples(metrics: Mapping[str, Any], key: str) -> int:
    value = metrics.get(key)
    whole = type(value) is int or (type(value) is float and value.is_integer())
    if not whole or value is None or value < 1:
        raise RefusedReplyError(
            "num_examples",
            f"The metric `{key}` should be a positive whole number. Found {shown(value)}.",
        )
    if value > MOST_EXAMPLES:
        raise RefusedReplyError(
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
