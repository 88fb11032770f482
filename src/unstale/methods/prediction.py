r"""W-Pred: first-order compensation for a predicted change of the global model.

**What the paper says.** Two things: that the staleness τ of a client is known beforehand, and
that the first-order method predicts the future global model, with which stale updates are
compensated. There is no formula. What follows is one reading.

**Derivation.** A client starts from version b. The server's last step was
$d_b = w_b - w_{b-1}$, the change that it made at $w_{b-1}$. `first_order` says how a change
made at one place looks at another, so from any weights w the next step is about

$$ d(w) = d_b - \lambda\, d_b\odot d_b\odot(w - w_{b-1}). $$

Going on with that from $\hat w_b = w_b$, one step per round of delay, predicts the model that
the update will meet:

$$ \hat w_{b+k+1} = \hat w_{b+k} + d(\hat w_{b+k}), \qquad k = 0, \dots, \tau-1. $$

With $u_k = \hat w_{b+k} - w_{b-1}$ and $r = 1 - \lambda d_b^2$ this is $u_{k+1} = r\,u_k + d_b$
and $u_0 = d_b$ in every entry, so $u_k = d_b\sum_{j\le k} r^j$ and

$$ \hat w_{b+\tau} - w_b = d_b\,(\sum_{j=0}^{\tau} r^j - 1). $$

The stale update is then corrected by `first_order`, for the predicted change instead of the
true one: $\hat\Delta = \Delta - \lambda\,\Delta\odot\Delta\odot(\hat w_{b+\tau} - w_b)$.

**What is assumed.**

- τ is known when the client starts. Here it is read when the update arrives, which is the same
  number where latencies are constant, and better than a server could know where they vary.
- The server's last step stands for a gradient at $w_{b-1}$, although it is a mean over the
  clients of one round, and one λ serves for it and for the client's update, although λ contains
  the learning rates (`first_order`).
- $|r| < 1$, that is $\lambda d_b^2 < 2$ in every entry. Beyond that predictions grow with τ.

**Another reading.** In the paper's source (DANA) the *client* computes its gradient at a
predicted position. There the server would send out $\hat w_{b+\tau}$ instead of $w_b$, and no
update would be changed. The paper speaks of compensating updates, so this is not done here.
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

    See the module's docstring for why this sum is the prediction.
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
        The paper's *W-Pred*, after Hakimi et al., "Taming Momentum in a Distributed
        Asynchronous Environment" (DANA), 2019.
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
