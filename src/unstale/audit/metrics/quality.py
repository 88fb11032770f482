"""Quality: every measure of one recovered set of inputs against a client's own."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unstale.audit.metrics.lpips import Lpips
from unstale.audit.metrics.lpips import takes as lpips_takes
from unstale.audit.metrics.matching import Match, identified, match
from unstale.audit.metrics.membership import Membership, by_class
from unstale.audit.metrics.membership import membership as membership_of
from unstale.audit.metrics.pictures import has_ssim, mean_squared_errors, psnr, ssim, unit_range
from unstale.audit.metrics.recognition import recognised
from unstale.inversion import InputSpec


@dataclass(frozen=True, slots=True)
class Quality:
    """How near a recovered set is to a client's samples; means over matched pairs.

    What could not be measured is NaN.
    """

    mse: float
    """Mean squared error of inputs in [0, 1]."""
    psnr: float
    """Mean of the pairs' peak signal-to-noise ratios, in dB."""
    ssim: float
    """Structural similarity; images only."""
    lpips: float
    """Perceptual distance; images only, and only with its weights."""
    identified: float
    """Share of pairs in which the recovered input finds its own original among many."""
    recognised: float
    """Share of pairs in which a classifier gives the recovered input its original's class."""
    auc: float
    """Membership: 0.5 where recovered inputs are no nearer to the client's samples than to
    held-out ones of the class."""
    true_positives: float
    """Membership: the share of the client's samples that are found at 1 % false positives."""
    pairs: int = 0
    """The number of pairs."""
    candidates: int = 0
    """Among how many samples an original was to be found."""


NOTHING = Quality(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan)
"""Where nothing was recovered."""


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """What recovered inputs are measured with."""

    inputs: InputSpec
    """What one input looks like."""
    held_out: tuple[Tensor, Tensor]
    """Inputs and labels that no client holds."""
    classifier: nn.Module
    """Trained on samples that the attacked clients do not hold."""
    lpips: Lpips | None = None
    """The perceptual distance, if its weights are at hand."""

    def of_classes(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the held-out samples of the classes in `y`."""
        chosen = torch.isin(self.held_out[1], y.to(self.held_out[1].device))
        return self.held_out[0][chosen], self.held_out[1][chosen]

    def pairs(self, recovered: Tensor, x: Tensor) -> Match:
        """Return which recovered input belongs to which sample."""
        return match(mean_squared_errors(*(unit_range(t, self.inputs) for t in (recovered, x))))

    def measure(
        self, recovered: Tensor, x: Tensor, y: Tensor, *, pairs: Match | None = None
    ) -> Quality:
        """Return every measure of a recovered set.

        Args:
            recovered: Recovered inputs.
            x: The client's inputs.
            y: The client's labels.
            pairs: Which belongs to which, where that is known; else the best one-to-one match.
        """
        if not len(recovered) or not bool(torch.isfinite(recovered).all()):
            return NOTHING
        recovered = recovered.to(x)
        found, own = unit_range(recovered, self.inputs), unit_range(x, self.inputs)
        others = unit_range(self.of_classes(y)[0], self.inputs)
        pairs = match(mean_squared_errors(found, own)) if pairs is None else pairs
        a, b = found[list(pairs.recovered)], own[list(pairs.originals)]
        errors = (a - b).flatten(1).square().mean(1).tolist()
        classes = y[list(pairs.originals)]
        member = self.membership(recovered, x, y)
        return Quality(
            mse=_mean(errors),
            psnr=_mean([psnr(max(e, 1e-12)) for e in errors]),
            ssim=self._ssim(a, b),
            lpips=self._lpips(a, b),
            identified=float(identified(found, own, others, pairs).double().mean()),
            recognised=float(
                recognised(self.classifier, recovered[list(pairs.recovered)], classes)
                .double()
                .mean()
            ),
            auc=member.auc,
            true_positives=member.true_positives,
            pairs=len(pairs),
            candidates=len(own) + len(others),
        )

    def membership(self, recovered: Tensor, x: Tensor, y: Tensor) -> Membership:
        """Return how well recovered inputs tell the client's samples from held-out ones."""
        pool = self.of_classes(y)
        found, own, others = (unit_range(t, self.inputs) for t in (recovered, x, pool[0]))
        return membership_of(by_class(found, (own, y), (others, pool[1])))

    def _ssim(self, a: Tensor, b: Tensor) -> float:
        found = ssim(a, b) if has_ssim() else None
        return math.nan if found is None else float(found.mean())

    def _lpips(self, a: Tensor, b: Tensor) -> float:
        if self.lpips is None or not lpips_takes(self.inputs.shape):
            return math.nan
        return float(self.lpips(a, b).mean())


def mean_quality(found: Sequence[Quality]) -> Quality:
    """Return the means over several clients, each counted once; NaN are left out."""
    if not found:
        return NOTHING
    names = [f.name for f in dataclasses.fields(Quality)][:8]
    means = {n: _mean([v for q in found if math.isfinite(v := getattr(q, n))]) for n in names}
    return Quality(
        **means,
        pairs=sum(q.pairs for q in found),
        candidates=max(q.candidates for q in found),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
