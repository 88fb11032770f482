"""The part of `ConvertAll`'s state that belongs to one client.

| key | value |
| --- | --- |
| `seen` | global version when its last update was converted or remembered |
| `version` | base version of the newest converted update |
| `count` | number of conversions |
| `num_examples`, `norm` | number of examples and norm of that update |
| `stood_in` | how often the client was stood in for since its last update |
| `checks` | the last comparisons of stand-ins with own updates, each as age and share |
| `before` | the surrogate before the newest one: `version`, `num_examples`, `x`, `y_logits` |
| `x`, `y_logits` | the surrogate, from which the next fit starts |
| `past` | the last updates, oldest first, each with `version` and `delta`; see `past_updates.py` |

A client of which nothing was converted yet has `seen` and `past` only.
"""

from collections.abc import Mapping
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


def surrogate_before(entry: Entry) -> Surrogate | None:
    """Return the surrogate of the conversion before the last one, or None."""
    before = entry.get("before")
    return Surrogate(before["x"], before["y_logits"]) if before else None


def remember(
    entry: Entry,
    update: Update,
    surrogate: Surrogate | None,
    now: int,
    *,
    keep_before: bool = False,
) -> dict[str, Any]:
    """Return the entry after a conversion.

    An update from an earlier version than the newest converted one does not replace the
    surrogate.

    Args:
        entry: What was known of the client.
        update: The update that was converted.
        surrogate: The surrogate that was found for it; None if none is to be kept.
        now: The current version.
        keep_before: Whether the surrogate that is replaced is kept beside it.
    """
    version = update.base_version
    after = {**entry, "seen": now, "count": entry.get("count", 0) + 1}
    if version >= entry.get("version", -1):
        after |= {
            "version": version,
            "num_examples": update.num_examples,
            "norm": float(norm(update.delta)),
        }
        if surrogate is not None:
            after.pop("before", None)
            if keep_before and "x" in entry:
                kept = ("version", "num_examples", "x", "y_logits")
                after["before"] = {key: entry[key] for key in kept}
            after |= {"x": surrogate.x, "y_logits": surrogate.y_logits}
    return after


def without_surrogate(entry: Entry) -> dict[str, Any]:
    """Return the entry without its surrogates, so that the next fit is cold."""
    return {k: value for k, value in entry.items() if k not in ("x", "y_logits", "before")}


def latest(clients: Mapping[str, Entry], most: int) -> dict[str, Entry]:
    """Return the entries of at most `most` clients, sorted by name.

    Clients with a surrogate come first, then those that were heard of last, so that updates
    that are only remembered do not take the place of what stands in for a client.
    """
    order = sorted(clients, key=lambda c: ("x" not in clients[c], -clients[c]["seen"], c))
    return {name: clients[name] for name in sorted(order[:most])}
