"""The book of the calibration: its part of the state, with the pairs of each client."""

from collections.abc import Callable, Mapping
from typing import Any

from unstale.methods.conversion.calibration import Pair
from unstale.updates import Note

# The state of the calibration; `new_book` lists its parts.
Book = Mapping[str, Any]

# Pairs that are kept of a client and a candidate, the newest ones.
MOST_PAIRS = 24


def new_book() -> Book:
    """Return the state before the first round.

    `pairs` are by client; `probes` and `seen`, `bases`, `fits`, `conversions`, `staleness` and
    `heard` belong to `probes.py`, `waiting` and `last` to `late_truths.py`.
    """
    return {
        "pairs": {},
        "probes": {},
        "seen": {},
        "bases": {},
        "fits": 0,
        "conversions": 0,
        "staleness": [],
        "heard": 0,
        "waiting": {},
        "last": {},
    }


def with_pair(book: Book, client: str, pair: Pair) -> Book:
    """Return the book with one more pair of a client."""
    pairs = book["pairs"].get(client, [])
    alike = [p for p in pairs if (p["by"], p["late"]) == (pair["by"], pair["late"])]
    if len(alike) >= MOST_PAIRS:
        pairs = [p for p in pairs if p is not alike[0]]
    return {**book, "pairs": {**book["pairs"], client: [*pairs, pair]}}


def pruned(book: Book, most: int) -> Book:
    """Return the book with what concerns at most `most` clients, those compared or converted last.

    Args:
        book: The state of the calibration.
        most: The maximum number of clients.
    """

    def latest(part: Mapping[str, Any], newest: Callable[[Any], int]) -> dict[str, Any]:
        filled = [client for client in part if part[client]]
        order = sorted(filled, key=lambda client: (-newest(part[client]), client))
        return {client: part[client] for client in sorted(order[:most])}

    return {
        **book,
        "pairs": latest(book["pairs"], lambda pairs: max(p["fitted"] + p["lag"] for p in pairs)),
        "waiting": latest(book["waiting"], lambda waiting: waiting[-1]["target"]),
        "last": latest(book["last"], lambda last: last["version"]),
    }


def note_of(client: str, version: int, pair: Pair) -> Note:
    """Return the note of a pair: what the truth said of an estimate.

    Args:
        client: The client.
        version: The version that the true update started from.
        pair: The pair.
    """
    detail = {key: pair[key] for key in ("lag", "stale_error", "error", "late")}
    found = pair["n"] / pair["d"] if pair["d"] > 0 else 0.0
    detail["share"] = min(max(found, 0.0), 1.0)
    return Note("calibrated", client, version, detail | ({"by": pair["by"]} if pair["by"] else {}))
