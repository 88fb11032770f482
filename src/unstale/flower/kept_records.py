"""The records of a reply without its arrays, as JSON values: what the journal keeps of it.

A function of the user's own aggregates the metrics of a round. It gets the records as clients
sent them, also those of a reply that was accepted by a process that has died.
"""

import base64
import math
from collections.abc import Mapping
from typing import Any

from flwr.app import ConfigRecord, MetricRecord, RecordDict

_KINDS: dict[str, type[MetricRecord] | type[ConfigRecord]] = {
    "metrics": MetricRecord,
    "config": ConfigRecord,
}


def records_as_json(content: RecordDict) -> dict[str, Any]:
    """Return the records of metrics and of settings by name, without arrays.

    Example:
        >>> records_as_json(RecordDict({"m": MetricRecord({"loss": math.nan, "hits": [3, 4]})}))
        {'m': {'kind': 'metrics', 'values': {'loss': {'float': 'nan'}, 'hits': [3, 4]}}}
    """
    return {
        str(name): {"kind": kind, "values": {str(k): _plain(v) for k, v in record.items()}}
        for name, record in content.items()
        for kind, cls in _KINDS.items()
        if isinstance(record, cls)
    }


def records_from_json(value: Mapping[str, Any]) -> RecordDict:
    """Return the records from the result of `records_as_json`."""
    return RecordDict(
        {
            name: _KINDS[record["kind"]]({k: _value(v) for k, v in record["values"].items()})
            for name, record in value.items()
        }
    )


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if isinstance(plain, dict):
        return base64.b64decode(plain["bytes"]) if "bytes" in plain else float(plain["float"])
    return plain
