"""Notes: what compensators and aggregators report about single updates.

This module imports nothing but the standard library, because the schema of the run folder
and the report need the kinds and run without torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

NoteKind = Literal[
    "weighted",  # its weight in the average was lowered
    "compensated",  # corrected by a formula
    "converted",  # replaced by an estimate from a surrogate
    "kept",  # used as it came, since other clients hold the like
    "fallback",  # could not be compensated: used as it came, or dropped
    "dropped",  # thrown away for its staleness
    "measured",  # an earlier estimate for this client was compared with what came now
    "switched",  # the stale update has a share again: estimates have become worse
    "discarded",  # the whole round's result was not finite
]
"""All kinds of notes: the only list of them. The schema of a round's line refuses others."""
NOTE_KINDS: tuple[NoteKind, ...] = get_args(NoteKind)


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that a compensator or aggregator did to one update.

    Raises:
        ValueError: If the kind is not one of `NOTE_KINDS`, since no report could count it.
    """

    kind: NoteKind
    """What was done."""
    client_id: str
    base_version: int
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Numbers and words about it, such as the weight, or the reason of a fallback. Some
    conversions also have `curve`: pairs of iteration and loss."""

    def __post_init__(self) -> None:
        if self.kind not in NOTE_KINDS:
            raise ValueError(
                f"The kind of a note should be one of: {', '.join(NOTE_KINDS)}. "
                f"Found {self.kind!r:.60}. Use the nearest, or add yours to `unstale.notes`."
            )
