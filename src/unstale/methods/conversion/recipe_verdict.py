r"""Which recipe explains a client best, and whether that is sure enough to report the client.

Another recipe r is compared with the assumed one s in two parts: how well surrogates fitted one
update, and how well they predicted the m next ones,

$$ f_r = \ln\frac{L_s}{L_r}, \qquad p_r = \frac{1}{m} \sum_{i=1}^{m} \ln\frac{E_s(i)}{E_r(i)}, $$

where L is the loss of the fit, at least 0.1, and E(i) the relative error of the i-th prediction. A
fit with a loss of 0.1 is good; that another one is still better tells nothing of the recipe. The
recipe with the largest score f + p explains the client best.

Short fits stall now and then, and are poor where the recipe is difficult (large momentum, small
batches). Then the score is chance. So a first look only finds whom to look at again; a second one,
with longer fits from several starts, decides.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unstale.methods.conversion.recipe_fits import ASSUMED

MIN_SCORE = 0.2
"""Above this score of a first look there is a second one."""
SURE = 0.5
"""Above this score of a second look a recipe is better than the assumed one."""
MIN_FIT = -0.1
"""The least f of a recipe that explains a client: one that fits worse is no explanation."""
# Losses and errors as they count.
_LEAST_LOSS, _LEAST_ERROR = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Verdict:
    """The recipe that explains a client best, beside the assumed one."""

    recipe: str
    """Its name."""
    score: float
    """By how much it is better than the assumed one."""
    explains: bool
    """Whether it fits about as well as the assumed one, or better."""

    def needs_second_look(self, look: int) -> bool:
        """Whether longer fits should decide."""
        return look == 1 and self.score > MIN_SCORE

    def is_reported(self, look: int) -> bool:
        """Whether the client is reported after a look."""
        return look == 2 and self.explains and self.score > SURE


def compared(errors: Mapping[str, float], least: float = _LEAST_ERROR) -> dict[str, float]:
    """Return how much better than the assumed recipe each other one predicted an update.

    Args:
        errors: The relative error of each recipe's prediction.
        least: Smaller errors count as this.

    Example:
        >>> compared({"assumed": 0.5, "faster": 0.25})
        {'faster': 0.6931471805599453}
    """
    assumed = max(errors[ASSUMED], least)
    return {
        name: math.log(assumed / max(error, least))
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
        ('faster', 2.01, True)
    """
    predicted = {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}
    fitted = compared(losses, _LEAST_LOSS)
    best = max(sorted(predicted), key=lambda name: fitted[name] + predicted[name])
    explains = fitted[best] >= MIN_FIT
    return Verdict(best, fitted[best] + predicted[best], explains)
