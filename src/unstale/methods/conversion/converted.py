"""A converted update, and the note that tells how its fit went."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from unstale.inversion import Conversion
from unstale.updates import Note, Update

# The loss curve is recorded at 12 iterations of cold fits, of a client's second fit and of every
# tenth: enough for the report, without making the round's line long.
CURVE_EVERY, CURVE_POINTS = 10, 12


def converted(update: Update, conversion: Conversion, before: int) -> tuple[Update, Note]:
    """Return the update with its estimate, and the note of the conversion.

    Args:
        update: The stale update.
        conversion: What its conversion found.
        before: The number of earlier conversions of its client.
    """
    detail: dict[str, Any] = {
        "loss": conversion.loss,
        "iterations": conversion.iterations,
        "seconds": conversion.seconds,
        "start": "warm" if conversion.warm else "cold",
    }
    if not conversion.warm or before == 1 or before % CURVE_EVERY == 0:
        detail["curve"] = _curve(conversion.losses)
    note = Note("converted", update.client_id, update.base_version, detail)
    return dataclasses.replace(update, delta=conversion.delta), note


def _curve(losses: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Return (iteration, loss) pairs, more of them at the start, where the loss falls fast."""
    last = len(losses) - 1
    steps = CURVE_POINTS - 1
    chosen = sorted({round(last * (i / steps) ** 2) for i in range(CURVE_POINTS)}) if losses else ()
    return tuple((i + 1, losses[i]) for i in chosen)
