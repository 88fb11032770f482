r"""Which recipe explains a client best, and whether that is sure enough to report the client.

Another recipe r is compared with the assumed one s in two parts: how well surrogates fitted one
update, and how well they predicted the m next ones,

$$ f_r = \ln\frac{L_s}{L_r}, \qquad p_r = \frac{1}{m} \sum_{i=1}^{m} \ln\frac{E_s(i)}{E_r(i)}, $$

where L is the loss of the fit and E(i) the relative error of the i-th prediction. The recipe with
the largest score f + p explains the client best. It explains it *at all* only if its own fit is
good and it predicts better. A short fit of a difficult recipe (large momentum, small batches) is
neither under any recipe, and tells nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unstale.methods.conversion.recipe_fits import ASSUMED

MIN_SCORE = 0.2
"""From this score on a recipe is better than the assumed one."""
CLEAR = 1.0
"""From this score on a first look suffices."""
MIN_PREDICTED = 0.2
"""The least p of a recipe that explains a client."""
MAX_LOSS = 0.3
"""The largest loss of the fit of a recipe that explains a client."""
# Losses and errors as they count: better ones are chance.
_LEAST = 0.01


@dataclass(frozen=True, slots=True)
class Verdict:
    """The recipe that explains a client best, beside the assumed one."""

    recipe: str
    """Its name."""
    score: float
    """By how much it is better than the assumed one."""
    explains: bool
    """Whether its fit and its predictions are good enough to say so."""

    def needs_second_look(self, look: int) -> bool:
        """Whether longer fits should decide."""
        return look == 1 and self.score > MIN_SCORE and not self.is_reported(look)

    def is_reported(self, look: int) -> bool:
        """Whether the client is reported after a first or a second look."""
        return self.explains and self.score > (CLEAR if look == 1 else MIN_SCORE)


def compared(errors: Mapping[str, float]) -> dict[str, float]:
    """Return how much better than the assumed recipe each other one predicted an update.

    Example:
        >>> compared({"assumed": 0.5, "faster": 0.25})
        {'faster': 0.6931471805599453}
    """
    assumed = max(errors[ASSUMED], _LEAST)
    return {
        name: math.log(assumed / max(error, _LEAST))
        for name, error in errors.items()
        if name != ASSUMED
    }


def verdict(losses: Mapping[str, float], scores: Sequence[Mapping[str, float]]) -> Verdict:
    """Return which recipe explains a client best.

    Args:
        losses: The loss of the fit by each recipe.
        scores: What `compared` returned for each prediction.

    Example:
        >>> found = verdict({"assumed": 0.5, "faster": 0.05}, [{"faster": 0.4}])
        >>> found.recipe, round(found.score, 2), found.explains
        ('faster', 2.7, True)
    """
    predicted = {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}
    fitted = compared(losses)
    best = max(sorted(predicted), key=lambda name: fitted[name] + predicted[name])
    explains = predicted[best] > MIN_PREDICTED and losses[best] <= MAX_LOSS
    return Verdict(best, fitted[best] + predicted[best], explains)
