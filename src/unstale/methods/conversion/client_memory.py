"""What is remembered of a client between its conversions.

An entry is plain state: `version` (the base of the newest update that was
converted), `seen` (when that was), `count` (how often), `x` and `y_logits` (its
surrogate) and `past` (its last updates, oldest first, each with `version`, `base`, `delta`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from unstale.inversion import Surrogate
from unstale.params import Params
from unstale.updates import Update

Entry = Mapping[str, Any]
# An update of the client with the weights that it started from.
Known = tuple[Update, Params]


def surrogate_of(entry: Entry) -> Surrogate | None:
    """Return the surrogate that the client's last conversion left, if any."""
    return Surrogate(entry["x"], entry["y_logits"]) if "x" in entry else None


def past_of(
    entry: Entry, others: Iterable[Known], version: int, depth: int
) -> list[tuple[Params, Params]]:
    """Return the newest `depth` updates of the client besides the one of `version`.

    Args:
        entry: What is remembered.
        others: Its updates of this round.
        version: The base version of the update that is converted.
        depth: How many at most.
    """
    found = {p["version"]: (p["base"], p["delta"]) for p in entry.get("past", [])}
    found |= {update.base_version: (base, update.delta) for update, base in others}
    found.pop(version, None)
    return [found[v] for v in sorted(found)[-depth:]] if depth else []


def remember(
    entry: Entry, known: Known, surrogate: Surrogate | None, depth: int, now: int
) -> dict[str, Any]:
    """Return the entry after a conversion.

    An update older than the newest one that was converted came late: it joins the past,
    but the surrogate stays with the newest.
    """
    update, base = known
    version = update.base_version
    after = {**entry, "seen": now, "count": entry.get("count", 0) + 1}
    if version >= entry.get("version", -1):
        after["version"] = version
        if surrogate is not None:
            after |= {"x": surrogate.x, "y_logits": surrogate.y_logits}
    if depth:
        past = {p["version"]: p for p in entry.get("past", [])}
        past[version] = {"version": version, "base": dict(base), "delta": dict(update.delta)}
        after["past"] = [past[v] for v in sorted(past)[-depth:]]
    return after


def without_surrogate(entry: Entry) -> dict[str, Any]:
    """Return the entry so that the next conversion begins anew."""
    return {key: value for key, value in entry.items() if key not in ("x", "y_logits")}


def latest(clients: Mapping[str, Entry], most: int) -> dict[str, Entry]:
    """Return the entries of the clients that were converted last, by name."""
    order = sorted(clients, key=lambda name: (-clients[name]["seen"], name))
    return {name: clients[name] for name in sorted(order[:most])}
