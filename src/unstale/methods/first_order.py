r"""First-order compensation (DC-ASGD), in the sign convention of deltas.

DC-ASGD corrects a delayed *gradient* by a Taylor expansion whose Hessian is
approximated by the diagonal of the gradient's outer product:

$$ g(w_t) \approx g(w_{t-\tau}) + \lambda\, g \odot g \odot (w_t - w_{t-\tau}). $$

A client sends no gradient but a delta, and a delta points the other way: one
step of size η gives $\Delta = -\eta g$. Put $g = -\Delta/\eta$ into the formula and
multiply by $-\eta$:

$$ \hat\Delta = \Delta - \frac{\lambda}{\eta}\,\Delta\odot\Delta\odot(w_t - w_{t-\tau}). $$

The quadratic term turns its sign, the linear one does not, so correcting a
delta with DC-ASGD's plus sign would *double* the error it is meant to remove.
The factor 1/η depends on steps, momentum and recipe; as in the paper it goes
into the empirical λ, which therefore is a number per delta, not per gradient.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from unstale.errors import ConfigError
from unstale.methods.base import Stateless, check_fallback, fall_back, per_update
from unstale.params import Params, subtract
from unstale.updates import Note, Outcome, ServerView, State, Update


def taylor(delta: Params, move: Params, lam: float) -> dict[str, Tensor]:
    """Return `delta - lam * delta * delta * move`, the first-order estimate after a move.

    Example:
        >>> import torch
        >>> d, m = {"w": torch.tensor([2.0])}, {"w": torch.tensor([0.5])}
        >>> taylor(d, m, lam=0.25)["w"]
        tensor([1.5000])
    """
    return {name: d - lam * d * d * move[name] for name, d in delta.items()}


def check_lam(method: str, lam: float) -> None:
    """Raise unless λ is a finite number of at least 0."""
    if not (lam >= 0 and math.isfinite(lam)):
        raise ConfigError(f"{method}: `lam` should be a number of at least 0. Found {lam!r}.")


@dataclass(frozen=True, slots=True)
class FirstOrder(Stateless):
    r"""Corrects a stale update by $\Delta-\lambda\,\Delta\odot\Delta\odot(w_t-w_{t-\tau})$.

    Example:
        >>> FirstOrder(lam=0.5).lam
        0.5

    References:
        Zheng et al., "Asynchronous Stochastic Gradient Descent with Delay Compensation"
        (DC-ASGD), 2017; the paper's *1st-Order*.
    """

    lam: float = 1.0
    """λ, the strength of the correction."""
    fallback: str = "keep"
    """What becomes of an update whose base weights are gone: `keep` or `drop`."""

    def __post_init__(self) -> None:
        check_lam("first_order", self.lam)
        check_fallback(self.fallback)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Correct every stale update whose base weights are known."""

        def treat(update: Update, view: ServerView) -> tuple[Update | None, Note]:
            base = view.history(update.base_version)
            if base is None:
                return fall_back(update, self.fallback, "the base weights are gone")
            delta = taylor(update.delta, subtract(view.params, base), self.lam)
            note = Note("compensated", update.client_id, update.base_version)
            return dataclasses.replace(update, delta=delta), note

        return per_update(updates, state, view, treat)
