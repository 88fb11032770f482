"""The verdict on surrogates of one client size: samples, members, the class, or nothing."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unstale.audit.baselines import HELD_OUT, NOISE
from unstale.audit.metrics.quality import Quality

# The rows of an audit that are no baselines, and the one that is another client's.
FIRST, LAST = "conversion, first", "conversion, last"
UPDATE = "update alone (SME)"
OTHER = "another client's"

Word = Literal["samples", "members", "the class", "nothing", "no surrogate"]

# An original is found by more than this share of pairs above the baselines.
FOUND = 0.1
# Members are told: this far above the baselines' AUC, or so many at 1 % false positives.
AUC, TRUE_POSITIVES = 0.1, 0.1
# The update alone tells as much, if it is no further behind than this.
AS_MUCH = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """What surrogates of clients with so many samples show."""

    samples: int
    """The number of a client's samples."""
    word: Word
    """The most that they show."""
    added: bool
    """Whether the update alone, without conversion, showed less."""


def judge(samples: int, rows: Mapping[str, Quality], classes: int) -> Verdict:
    """Return the verdict on one size.

    Surrogates show *samples* if recovered inputs find their own originals among many in over 0.1
    more pairs than any baseline does; *members* if they are nearer to the client's samples than
    to held-out ones (AUC 0.1, or true positives 0.1, above every baseline); *the class* if a
    classifier sees it at least half as often beyond chance as in held-out samples.
    """
    if LAST not in rows:
        return Verdict(samples, "no surrogate", False)
    plain = [q for name, q in rows.items() if name not in (FIRST, LAST, UPDATE)]
    best = rows[LAST]
    first = rows.get(FIRST, best)
    found = max(best.identified, first.identified)
    word: Word = "nothing"
    known = rows[HELD_OUT].recognised if HELD_OUT in rows else 1.0
    chance = max(1 / classes, rows[NOISE].recognised if NOISE in rows else 0.0)
    if best.recognised - chance >= (known - chance) / 2 and known > chance:
        word = "the class"
    if _above(max(best.auc, first.auc), plain, "auc", AUC) or _above(
        max(best.true_positives, first.true_positives), plain, "true_positives", TRUE_POSITIVES
    ):
        word = "members"
    if _above(found, plain, "identified", FOUND):
        word = "samples"
    update = rows[UPDATE].identified if UPDATE in rows else math.nan
    return Verdict(samples, word, word == "samples" and not update >= found - AS_MUCH)


def _above(value: float, others: list[Quality], name: str, by: float) -> bool:
    known = [v for q in others if math.isfinite(v := getattr(q, name))]
    return math.isfinite(value) and value > max(known, default=0.0) + by
