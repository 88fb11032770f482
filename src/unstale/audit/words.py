"""The sentences of an audit: what it shows, what it does not, and what to change."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from unstale.audit.verdict import FIRST, LAST, UPDATE, Verdict

if TYPE_CHECKING:
    from unstale.audit.result import PrivacyAudit, Size

SHOWS = {
    "samples": "surrogates show single samples of a client: in {found} of the matched pairs "
    "the recovered input finds its own original among {candidates} samples",
    "members": "surrogates are nearer to a client's own samples than to others of the class "
    "(AUC {auc:.2f}, {tpr:.0%} found at 1 % false positives), though no single sample is "
    "found more often than by the baselines",
    "the class": "surrogates show which class a client holds ({class_:.0%} are recognised); beyond "
    "that they are not clearly nearer to its samples than the baselines are (AUC {auc:.2f})",
    "nothing": "surrogates show neither samples nor the class beyond the baselines",
    "no surrogate": "no surrogate could be fitted, so conversion shows nothing here",
}
LIMITS = (
    "What this does not show: it tries these attacks on these clients, not all attacks. A better "
    "attack, other weights or prior knowledge can find more; a good result is no proof. Only "
    "differential privacy on the client bounds what any attack can find.",
)
CHANGE = (
    "What to change: let clients train on more samples in one update, or protect updates on the "
    "client (sparsify, add noise, or clip and noise for differential privacy) and "
    "audit again with [protection] in the experiment file; keep surrogates out of run folders "
    "and checkpoints. Sparsifying on the server (inversion.sparsity) hides nothing from the server "
    "itself."
)


def sentences(audit: "PrivacyAudit") -> tuple[str, ...]:
    """Return the sentences, those about results first."""
    said = [*_shown(audit), *_added(audit), *_labels(audit)]
    if any(v.word in ("samples", "members") for v in audit.verdicts):
        said.append(CHANGE)
    return (*said, *LIMITS)


def _shown(audit: "PrivacyAudit") -> Iterator[str]:
    for size, verdict in zip(audit.sizes, audit.verdicts, strict=True):
        yield f"Clients of {_samples(size.samples)}: {_finding(size, verdict)}."


def _finding(size: "Size", verdict: Verdict) -> str:
    if verdict.word == "no surrogate":
        return SHOWS[verdict.word]
    last = size.rows[LAST]
    best = max(last, size.rows.get(FIRST, last), key=lambda q: q.identified)
    member = max(last, size.rows.get(FIRST, last), key=lambda q: q.auc)
    return SHOWS[verdict.word].format(
        found=f"{best.identified:.0%}",
        candidates=best.candidates,
        auc=member.auc,
        tpr=member.true_positives,
        class_=last.recognised,
    )


def _added(audit: "PrivacyAudit") -> Iterator[str]:
    leaking = [v for v in audit.verdicts if v.word == "samples"]
    if own := [v.samples for v in leaking if not v.added]:
        yield (
            f"For clients of {_listed(own)} the update alone shows as much: an attack without "
            "conversion (surrogate model extension) finds at least nearly as many originals. "
            "Turning conversion off would hide nothing from the server; it would leave nothing "
            "behind in checkpoints."
        )
    if added := [v.samples for v in leaking if v.added]:
        yield (
            f"For clients of {_listed(added)} conversion finds more originals than the attack on "
            "one update does (surrogate model extension): it looks at several updates of a client."
        )
    alone = [
        s.samples
        for s, v in zip(audit.sizes, audit.verdicts, strict=True)
        if v.word != "samples" and UPDATE in s.rows and _beats(s)
    ]
    if alone:
        yield (
            f"For clients of {_listed(alone)} the attack on the update alone finds originals that "
            "conversion does not: the update leaks them whether or not it is converted."
        )


def _beats(size: "Size") -> bool:
    plain = [q.identified for name, q in size.rows.items() if name != UPDATE]
    return size.rows[UPDATE].identified > max([p for p in plain if p == p], default=0) + 0.1


def _labels(audit: "PrivacyAudit") -> Iterator[str]:
    last = audit.sizes[-1]
    ways = (("the surrogate", last.labels.learned), ("the last layer", last.labels.analytic))
    told = [f"{name} tells {value:.0%}" for name, value in ways if math.isfinite(value)]
    if told:
        yield (
            f"Labels, clients of {_samples(last.samples)}: {' and '.join(told)} of them; guessing "
            f"that classes are even tells {last.labels.even:.0%}."
        )


def _samples(count: int) -> str:
    return f"{count} sample{'s' * (count != 1)}"


def _listed(counts: list[int]) -> str:
    *rest, last = map(str, counts)
    return f"{', '.join(rest)} and {last} samples" if rest else _samples(int(last))
