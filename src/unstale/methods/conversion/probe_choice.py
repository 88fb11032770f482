"""The choice of probes: which fast clients are fitted, when, and when they are compared.

See `probes.py`. Everything here depends on names, versions and counts alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unstale.methods.conversion import candidates
from unstale.methods.conversion.calibration_book import Book
from unstale.methods.conversion.settings import Calibration
from unstale.seeding import derive
from unstale.updates import Update

# A probe's part of the book: `sent` (the updates that it was fitted to, oldest first, each with
# `version` and `delta`), `num_examples`, `updates` (how often it was fitted), `lag` (at which it
# was last compared), `seen` (version of its last fresh update), and `surrogates` by candidate,
# each with `x`, `y_logits` and `explained` (what its training from `version` changes); empty where
# the fit failed.
Probe = Mapping[str, Any]

# A probe is compared again at a lag of this many times the last.
SPACING = 1.25
# A probe is fitted anew at a lag of this many times the largest staleness of late.
REACH = 1.2
# Stale updates that count as those of late.
OF_LATE = 16
# Clients whose return is waited for.
MOST_SEEN = 64


def heard(book: Book, updates: Sequence[Update], now: int) -> Book:
    """Count the stale updates of a round."""
    late = [u.staleness(now) for u in updates if u.staleness(now) > 0]
    if not late:
        return book
    kept = [*book["staleness"], *sorted(late)][-OF_LATE:]
    return {**book, "staleness": kept, "heard": now}


def reach_of(book: Book, settings: Calibration) -> float:
    """Return the lag at which a probe is fitted anew."""
    return REACH * max(book["staleness"]) if book["staleness"] else float(settings.renew)


def is_due(probe: Probe, lag: int, reach: float) -> bool:
    """Return whether a probe is compared at this lag: the next one, or the last of a surrogate."""
    last = int(probe["lag"])
    return lag >= max(1, math.ceil(SPACING * last)) or last < reach <= lag


def chosen(
    book: Book, fresh: Mapping[str, Update], now: int, reach: float, settings: Calibration
) -> Iterator[str]:
    """Yield the clients whose fresh updates are fitted: new probes, then the longest waiting."""
    probes, each = book["probes"], len(candidates.names(settings))
    left = math.floor(settings.cost * book["conversions"]) + settings.probes * each - book["fits"]
    back = [c for c in fresh if c in book["seen"] and c not in probes]
    new = sorted(back, key=_order)[: max(_wanted(now, settings) - len(probes), 0)]
    # While nothing stale arrives nobody needs to know.
    idle = bool(book["staleness"]) and now - book["heard"] > 2 * max(reach, settings.renew)
    old = [c for c, p in probes.items() if c in fresh and now - version_of(p) >= reach and not idle]
    for client in [*new, *sorted(old, key=lambda c: (version_of(probes[c]), _order(c)))]:
        if left < each:
            return
        left -= each
        yield client


def _wanted(now: int, settings: Calibration) -> int:
    """Return how many probes there should be by now.

    Their first fits are spread over the first `renew` versions, each pause twice as long as the
    one before, since conversions early in training differ from later ones.
    """
    pause = settings.renew / 10
    return min(settings.probes, 1 + math.floor(math.log2(1 + now / pause)))


def seen_with(seen: Mapping[str, int], fresh: Mapping[str, Update], now: int) -> dict[str, int]:
    """Return who may come back: the clients that sent the last fresh updates, with the versions."""
    found = {**seen, **dict.fromkeys(fresh, now)}
    newest = sorted(found, key=lambda c: (-found[c], _order(c)))[:MOST_SEEN]
    return {client: found[client] for client in sorted(newest)}


def _order(client: str) -> tuple[int, str]:
    """Return a key that orders clients as if drawn by lot, the same in every run."""
    return derive(0, "probe", client), client


def version_of(probe: Probe) -> int:
    """Return the version that a probe's newest fitted update started from."""
    return int(probe["sent"][-1]["version"])
