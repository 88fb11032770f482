"""The verdict of a check: one of a few words, and why, in sentences with the figures."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from unstale.check.figures import Figures

Word = Literal["helps", "helps a little", "does not help", "harms", "does not work"]

# The largest error that a converted update may have in a run, as a share of the stale one's.
HELPS, HELPS_A_LITTLE, NO_HARM = 1 / 3, 0.8, 1.05
# From this share of failed conversions on, the settings do not work.
TOO_MANY_FAILED = 0.5
# Stale updates that are nearer to the truth than this leave nothing to gain.
HARDLY_STALE = 0.005
# Seconds a conversion from which on a server should not wait for it.
SLOW = 5.0
# From this share of the stale error on, what batches change by chance is worth a sentence.
BY_CHANCE = 0.1
# Norms outside of these bounds are worth a sentence.
SMALL, LARGE = 0.7, 1.4


class Verdict(NamedTuple):
    """What to make of a check."""

    word: Word
    """What conversion does here."""
    sentences: tuple[str, ...]
    """Why, with the figures, and what to do."""


def judge(
    first: Figures,
    in_run: Figures,
    reasons: Sequence[str] = (),
    *,
    staleness: int,
    device: str = "cpu",
    random_data: bool = False,
    thorough: bool = False,
) -> Verdict:
    """Return the verdict on some conversions.

    Args:
        first: Each client's first conversion.
        in_run: The later ones, which decide.
        reasons: Why conversions failed, one reason for each.
        staleness: By how many versions the updates were late.
        device: Where they were converted.
        random_data: Whether the data was random.
        thorough: Whether the settings were those of the preset `thorough` already.
    """
    word = _word(first, in_run)
    said = [*_errors(first, in_run, staleness, word), *_bounds(in_run, word), *_sizes(in_run, word)]
    # Where little more can be had, a slower preset is no advice.
    advice = _ADVICE[word][thorough or _as_good_as_half(in_run, word)]
    said += [*_failures(first, in_run, reasons), advice, *_cost(first, in_run, device)]
    return Verdict(word, (*filter(None, said), *([RANDOM] if random_data else [])))


RANDOM = (
    "The data was random, one Gaussian blob per class: this shows whether updates of this model "
    "and recipe can be fitted, and what it costs. How much conversion gains on your data only "
    "your data can show."
)
# With what is better for more time, and without.
_ADVICE: dict[Word, tuple[str, str]] = {
    "helps": ("", ""),
    "helps a little": (
        'Check preset = "thorough", too: it converts better, for several times the time.',
        "",
    ),
    "does not help": (
        'Check preset = "thorough", or use a cheaper method, such as `unweighted` or `weighted`.',
        "Use a cheaper method, such as `unweighted` or `weighted`.",
    ),
    "harms": (
        'Do not use these settings here. Check preset = "thorough"; if that does not help either, '
        "use `unweighted` or `weighted`. On a server `uniqueness` and `switching`, which are off "
        "in this check, limit the harm.",
        "Do not use these settings here, but `unweighted` or `weighted`. On a server `uniqueness` "
        "and `switching`, which are off in this check, limit the harm.",
    ),
    "does not work": ("", ""),
}


def _word(first: Figures, in_run: Figures) -> Word:
    failed = first.failed + in_run.failed
    if failed > TOO_MANY_FAILED * (first.conversions + in_run.conversions):
        return "does not work"
    if not in_run.stale.cosine >= 0:  # NaN: there is no truth to compare with
        return "does not work"
    if in_run.stale.cosine == 0:
        return "does not help" if in_run.converted.cosine == 0 else "harms"
    return _by_ratio(in_run.ratio)


def _by_ratio(ratio: float) -> Word:
    if not ratio <= NO_HARM:  # or NaN
        return "harms"
    if ratio > HELPS_A_LITTLE:
        return "does not help"
    return "helps" if ratio <= HELPS else "helps a little"


def _errors(first: Figures, in_run: Figures, staleness: int, word: Word) -> Iterator[str]:
    if not in_run.stale.cosine >= 0:
        yield (
            "The clients' updates are zero or not finite, so there is nothing to compare with: "
            "training itself fails. Check the learning rate, and that the data is scaled."
        )
        return
    yield (
        f"{staleness} versions late, an update is {in_run.stale.cosine:.3g} from the true one "
        f"(cosine distance, mean of {in_run.conversions}); converted it is "
        f"{in_run.converted.cosine:.3g}{_times(in_run.ratio)}."
    )
    if word in ("helps", "helps a little") and first.ratio > NO_HARM:
        yield (
            f"A client's first conversion is worse than its stale update{_times(first.ratio)}: "
            "the gain begins with its second."
        )
    if in_run.stale.cosine < HARDLY_STALE:
        yield (
            "Stale updates are hardly wrong here, so there is little to gain. Check a larger "
            "staleness, if updates can be later than this."
        )


def _times(ratio: float) -> str:
    return f", {ratio:.2g} times the error" if ratio == ratio else ""


def _failures(first: Figures, in_run: Figures, reasons: Sequence[str]) -> Iterator[str]:
    failed, all_ = first.failed + in_run.failed, first.conversions + in_run.conversions
    if not failed:
        return
    shown = _most_common(reasons)
    yield f"{failed} of {all_} conversions failed{': ' + shown if shown else ''}."
    if "no fit" in shown:
        yield (
            "The surrogate could not be made to train as the client did. Fewer or smaller local "
            'steps, more `inversion.iterations`, another `inversion.start` or preset = "thorough" '
            "may fit. Client and server run the same recipe in this check; on a server, make "
            "sure of that first."
        )
    elif "not trusted" in shown or "not finite" in shown:
        yield "A smaller learning rate of the clients, or of the fit (`inversion.lr`), may do."


def _most_common(reasons: Sequence[str]) -> str:
    """Return the commonest reason, numbers apart, as it was given first."""
    kinds = [re.sub(r"[-+.\d]+(e[-+]?\d+)?", "#", reason) for reason in reasons]
    return reasons[kinds.index(max(kinds, key=kinds.count))] if kinds else ""


def _bounds(in_run: Figures, word: Word) -> Iterator[str]:
    """Say what a conversion can hardly do better than."""
    if in_run.again is not None and in_run.again.cosine > BY_CHANCE * in_run.stale.cosine:
        yield (
            "Clients train in mini-batches: the same client's update, trained again with other "
            f"batches, is {in_run.again.cosine:.3g} from the true one, and no estimate can be "
            "expected to be nearer."
        )
    if in_run.half is not None and _as_good_as_half(in_run, word):
        yield (
            "More can hardly be had: a server that knew half of each client's own samples would "
            f"be {in_run.half.cosine:.3g} from the truth."
        )


def _as_good_as_half(in_run: Figures, word: Word) -> bool:
    """Return whether little is gained, and half of the client's own data would gain no more."""
    little = word in ("helps a little", "does not help")
    bounds = in_run.stale.cosine, in_run.half.cosine if in_run.half else -1.0
    return little and in_run.converted.cosine <= min(bounds)


def _sizes(in_run: Figures, word: Word) -> Iterator[str]:
    if word == "does not work":
        return
    if in_run.l2_ratio < in_run.ratio and _by_ratio(in_run.l2_ratio) != word:
        yield (
            f"By L2, which also counts the size of an update, it is {in_run.l2_ratio:.2g} times "
            "the error: sizes gain more than directions, by which this check judges."
        )
    norms = in_run.converted.norms
    if not SMALL <= norms <= LARGE:
        kind = "small" if norms < SMALL else "large"
        yield f"Converted updates are too {kind}: {norms:.2g} times the true size."


def _cost(first: Figures, in_run: Figures, device: str) -> Iterator[str]:
    memory = max((f.memory for f in (first, in_run) if f.memory is not None), default=None)
    held = "" if memory is None else f" and up to {memory / 2**30:.2g} GiB of GPU memory"
    yield (
        f"A conversion takes {seconds(in_run.seconds)} on {device} "
        f"({seconds(first.seconds)} a client's first){held}."
    )
    if in_run.seconds > SLOW:
        other = "" if device.startswith("cuda") else "use a GPU, "
        yield (
            f"That is long for a round to wait: {other}fit in a background (`us.Background`), or "
            "lower `inversion.max_samples` or `inversion.warm_iterations`."
        )


def seconds(value: float) -> str:
    """Return seconds with two digits.

    Example:
        >>> seconds(0.0213), seconds(12.34)
        ('0.021 s', '12 s')
    """
    return f"{value:.2g} s" if value < 100 else f"{value:.0f} s"
