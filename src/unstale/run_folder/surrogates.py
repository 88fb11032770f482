"""The file of some surrogates that a method kept: written at its end, shown by the report."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale.files import write_whole
from unstale.run_folder.schema.checked import DamageError, count, items, mapping, number

if TYPE_CHECKING:
    from unstale.inversion import InputSpec, Surrogate

MAX_CLIENTS, MAX_SAMPLES = 6, 8
# All of a file's values: it is there to be looked at, and large inputs show with fewer samples.
MAX_VALUES = 200_000


@dataclass(frozen=True, slots=True)
class SurrogateSamples:
    """Some samples of the surrogate that a method kept of one client."""

    client: str
    """Whose; foreign text."""
    shape: tuple[int, ...]
    """The shape of one input."""
    low: float
    """The value that is drawn darkest."""
    high: float
    """The value that is drawn brightest."""
    samples: int
    """How many there are; not all are in the file."""
    x: tuple[tuple[float, ...], ...]
    """Inputs, each as one row of values."""
    labels: tuple[tuple[float, ...], ...]
    """Soft labels, one for each input."""

    @classmethod
    def from_json(cls, value: object) -> "SurrogateSamples":
        """Return one client's entry of the file.

        Raises:
            DamageError: If values are of the wrong kind, or do not fit each other.
        """
        fields = mapping(value, "A surrogate")
        shape = tuple(count(n, "shape") for n in items(fields.get("shape"), "shape"))
        if not shape or not all(shape):
            raise DamageError(f"shape should be positive whole numbers. Found {list(shape)!r:.60}.")
        x = tuple(_row(row, "x") for row in items(fields.get("x"), "x"))
        labels = tuple(_row(row, "labels") for row in items(fields.get("labels"), "labels"))
        size = math.prod(shape)
        if any(len(row) != size for row in x):
            raise DamageError(f"A row of x should have {size} values, one for each entry.")
        if len(labels) != len(x):
            raise DamageError(
                f"labels should be {len(x)}, one for each row of x. Found {len(labels)}."
            )
        low, high = number(fields.get("low"), "low"), number(fields.get("high"), "high")
        return cls(
            client=str(fields.get("client", "?")),
            shape=shape,
            # Without bounds of their own, values are shown between the least and the greatest.
            low=_least(x) if low is None else low,
            high=-_least([-v for v in row] for row in x) if high is None else high,
            samples=max(count(fields.get("samples"), "samples"), len(x)),
            x=x,
            labels=labels,
        )


def parse_surrogates(value: object) -> tuple[SurrogateSamples, ...]:
    """Return the clients of a surrogates file.

    Raises:
        DamageError: If it does not hold what `write_surrogates` writes.
    """
    fields = mapping(value, "The file")
    clients = items(fields.get("clients"), "clients")
    return tuple(SurrogateSamples.from_json(entry) for entry in clients)


def write_surrogates(
    path: Path, surrogates: Mapping[str, "Surrogate"], inputs: "InputSpec | None"
) -> None:
    """Write some samples of some surrogates; no file where there are none to show.

    Args:
        path: Where to.
        surrogates: What a server keeps, by client.
        inputs: What one input looks like; surrogates that do not fit it are left out.
    """
    if inputs is None:
        return
    kept = {c: s for c, s in sorted(surrogates.items()) if s.fits(inputs)}
    if not kept:
        return
    chosen = list(kept)[:MAX_CLIENTS]
    size = kept[chosen[0]].x[0].numel() * len(chosen)
    samples = max(1, min(MAX_SAMPLES, MAX_VALUES // size))
    shown = [_described(client, kept[client], inputs, samples) for client in chosen]
    # Without indents, which would give each of the values a line of its own.
    content = {"clients": shown, "of": len(kept)}
    write_whole(path, (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode())


def _described(
    client: str, surrogate: "Surrogate", inputs: "InputSpec", most: int
) -> dict[str, Any]:
    return {
        "client": client,
        "shape": list(inputs.shape),
        "low": inputs.low,
        "high": inputs.high,
        "samples": len(surrogate),
        "x": [_rounded(x.flatten().tolist()) for x in surrogate.x[:most]],
        "labels": [_rounded(y.tolist()) for y in surrogate.labels[:most]],
    }


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 3) for value in values]


def _row(value: object, what: str) -> tuple[float, ...]:
    found = [number(entry, what) for entry in items(value, what)]
    if any(entry is None for entry in found):
        raise DamageError(f"{what} should hold finite numbers. Found one that is not.")
    return tuple(entry for entry in found if entry is not None)


def _least(rows: Iterable[Iterable[float]]) -> float:
    return min((value for row in rows for value in row), default=0.0)
