"""Notes: what compensators and aggregators report about single updates.

This module imports nothing but the standard library, because the schema of the run folder
and the report need the kinds and run without torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

NoteKind = Literal[
    "weighted",  # its weight in the average was lowered
    "compensated",  # its delta was corrected by a formula
    "converted",  # replaced by an estimate, trained on the client's surrogate
    "kept",  # not unique, so it was used unchanged
    "fallback",  # could not be compensated: used unchanged, or dropped
    "dropped",  # too stale, so it was not used
    "measured",  # compared with an earlier estimate for the same client
    "switched",  # mixed with, or used instead of, its estimate after switching back
    "stood_in",  # made by the server in place of an absent client
    "checked",  # its own update, compared with what the server had used in its place
    "probed",  # fresh; a surrogate was fitted to it, to learn how good conversions are
    "calibrated",  # its true update, compared with what a conversion makes of an earlier one
    "other_recipe",  # fresh; its client trains by another recipe than the server assumes
    "bounded",  # shortened by a bound on norms before it was aggregated
    "left_out",  # not used by a robust aggregator, stale or not
    "discarded",  # the result of the whole round was not finite
]
"""All kinds of notes: the only list of them. The schema of a round's line refuses others."""
NOTE_KINDS: tuple[NoteKind, ...] = get_args(NoteKind)


@dataclass(frozen=True, slots=True)
class Note:
    """What a compensator or aggregator did to one update, for log and report.

    Raises:
        ValueError: If the kind is not one of `NOTE_KINDS`, since no report could count it.
    """

    kind: NoteKind
    """What was done."""
    client_id: str
    base_version: int
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Details by name, such as the weight or the reason of a fallback. Some conversions have
    `curve`, the loss of the fit as (iteration, loss) pairs."""

    def __post_init__(self) -> None:
        if self.kind not in NOTE_KINDS:
            raise ValueError(
                f"The kind of a note should be one of: {', '.join(NOTE_KINDS)}. "
                f"Found {self.kind!r:.60}. Use the nearest, or add yours to `unstale.notes`."
            )
