"""The part of `ConvertAll`'s state that belongs to one client.

| key | value |
| --- | --- |
| `version` | base version of the newest converted update |
| `seen` | global version at the last conversion |
| `count` | number of conversions |
| `num_examples`, `norm` | number of examples and norm of that update |
| `stood_in` | how often the client was stood in for since its last update |
| `checks` | the last comparisons of stand-ins with own updates, each as age and share |
| `x`, `y_logits` | the surrogate, from which the next fit starts |
| `past` | the last updates, oldest first, each with `version`, `base` and `delta` |
"""

from collections.abc import Iterable, Mapping
from typing import Any

from unstale.inversion import Surrogate
from unstale.params import Params, norm
from unstale.updates import Update

Entry = Mapping[str, Any]
# An update with the weights of its base version.
Known = tuple[Update, Params]


def surrogate_of(entry: Entry) -> Surrogate | None:
    """Return the surrogate of the client's last conversion, or None."""
    return Surrogate(entry["x"], entry["y_logits"]) if "x" in entry else None


def past_of(
    entry: Entry, others: Iterable[Known], version: int, depth: int
) -> list[tuple[Params, Params]]:
    """Return the client's newest updates besides the one that is converted, as (base, delta).

    Args:
        entry: The client's part of the state.
        others: The client's updates of this round.
        version: The base version of the update that is converted.
        depth: The maximum number of updates to return.
    """
    found = {p["version"]: (p["base"], p["delta"]) for p in entry.get("past", [])}
    found |= {update.base_version: (base, update.delta) for update, base in others}
    found.pop(version, None)
    return [found[v] for v in sorted(found)[-depth:]] if depth else []


def remember(
    entry: Entry, known: Known, surrogate: Surrogate | None, depth: int, now: int
) -> dict[str, Any]:
    """Return the entry after a conversion.

    An update from an earlier version than the newest converted one is added to `past`, but
    does not replace the surrogate.
    """
    update, base = known
    version = update.base_version
    after = {**entry, "seen": now, "count": entry.get("count", 0) + 1}
    if version >= entry.get("version", -1):
        after |= {
            "version": version,
            "num_examples": update.num_examples,
            "norm": float(norm(update.delta)),
        }
        if surrogate is not None:
            after |= {"x": surrogate.x, "y_logits": surrogate.y_logits}
    if depth:
        past = {p["version"]: p for p in entry.get("past", [])}
        past[version] = {"version": version, "base": dict(base), "delta": dict(update.delta)}
        after["past"] = [past[v] for v in sorted(past)[-depth:]]
    return after


def without_surrogate(entry: Entry) -> dict[str, Any]:
    """Return the entry without its surrogate, so that the next fit is cold."""
    return {key: value for key, value in entry.items() if key not in ("x", "y_logits")}


def latest(clients: Mapping[str, Entry], most: int) -> dict[str, Entry]:
    """Return the entries of the `most` clients that were converted last, sorted by name."""
    order = sorted(clients, key=lambda name: (-clients[name]["seen"], name))
    return {name: clients[name] for name in sorted(order[:most])}
