r"""W-Pred: first-order compensation for a predicted change of the global model.

The staleness τ of a client is assumed to be known when the client starts at version
b. The server then predicts the global model τ rounds later from its own last step
$d_b = w_b - w_{b-1}$, with the correction of `first_order`:

$$ \hat w_{b+k+1} = \hat w_{b+k} + d_b
   - \lambda\, d_b\odot d_b\odot(\hat w_{b+k} - w_{b-1}), \qquad \hat w_b = w_b, $$

and the stale update is corrected for the predicted change instead of the true one:
$\hat\Delta = \Delta - \lambda\,\Delta\odot\Delta\odot(\hat w_{b+\tau} - w_b)$.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.methods.base import check_fallback, fall_back, per_update
from unstale.methods.first_order import check_lam, taylor
from unstale.params import Params, subtract
from unstale.updates import Note, Outcome, ServerView, State, Update


def predict_move(base: Params, before: Params, rounds: int, lam: float) -> dict[str, Tensor]:
    r"""Return the predicted $\hat w_{b+\tau} - w_b$ from the weights at b and b − 1.

    Example:
        >>> import torch
        >>> base, before = {"w": torch.tensor([3.0])}, {"w": torch.tensor([2.0])}
        >>> predict_move(base, before, rounds=4, lam=0.0)["w"]
        tensor([4.])
    """
    last_step = subtract(base, before)
    return {n: d * (_geometric_sum(1 - lam * d * d, rounds + 1) - 1) for n, d in last_step.items()}


def _geometric_sum(ratio: Tensor, terms: int) -> Tensor:
    r"""Return $\sum_{j<n} r^j$ in log n steps, by doubling, for any staleness.

    The recursion in the module's docstring has the solution
    $\hat w_{b+k} - w_{b-1} = d\,\sum_{j\le k} r^j$ with $r = 1 - \lambda d^2$.
    """
    total, power = torch.zeros_like(ratio), torch.ones_like(ratio)  # of the terms summed so far
    block, block_power = torch.ones_like(ratio), ratio  # of 1, 2, 4, … terms
    while terms:
        if terms & 1:
            total, power = total + power * block, power * block_power
        block, block_power = block * (1 + block_power), block_power * block_power
        terms >>= 1
    return total


@dataclass(frozen=True, slots=True)
class PredictedMove:
    """Corrects a stale update for the predicted change of the global model.

    Version 0 has no earlier step to predict from, so updates from it are used unchanged.

    Example:
        >>> PredictedMove().lookback
        1

    References:
        Hakimi et al., "Taming Momentum in a Distributed Asynchronous Environment", 2019,
        in the form of the paper's *W-Pred*.
    """

    lam: float = 1.0
    """λ, the strength of both first-order corrections."""
    fallback: str = "keep"
    """What to do with an update whose base version is no longer stored: `keep` (use it unchanged)
    or `drop`."""

    def __post_init__(self) -> None:
        check_lam("w_pred", self.lam)
        check_fallback(self.fallback)

    @property
    def lookback(self) -> int:
        """1: the version before the base is needed for the last step."""
        return 1

    def init(self) -> State:
        """Return the empty state."""
        return {}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Correct every stale update whose base version and the one before are still kept."""

        def treat(update: Update, view: ServerView) -> tuple[Update | None, Note]:
            version = update.base_version
            if version == 0:
                return fall_back(update, "keep", "version 0 has no earlier step to predict from")
            base, before = view.history(version), view.history(version - 1)
            if base is None or before is None:
                return fall_back(update, self.fallback, "the base weights are gone")
            move = predict_move(base, before, update.staleness(view.version), self.lam)
            delta = taylor(update.delta, move, self.lam)
            note = Note("compensated", update.client_id, version)
            return dataclasses.replace(update, delta=delta), note

        return per_update(updates, state, view, treat)
