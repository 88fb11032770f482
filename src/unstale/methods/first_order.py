r"""First-order compensation (DC-ASGD), in the sign convention of deltas.

DC-ASGD corrects a delayed *gradient* by a Taylor expansion whose Hessian is
approximated by the diagonal of the gradient's outer product:

$$ g(w_t) \approx g(w_{t-\tau}) + \lambda\, g \odot g \odot (w_t - w_{t-\tau}). $$

A client sends a delta instead of a gradient, and a delta has the opposite sign: one
step of size η gives $\Delta = -\eta g$. Substituting $g = -\Delta/\eta$ and
multiplying by $-\eta$ gives

$$ \hat\Delta = \Delta - \frac{\lambda}{\eta}\,\Delta\odot\Delta\odot(w_t - w_{t-\tau}). $$

The quadratic term changes its sign and the linear one does not: DC-ASGD's plus sign
applied to deltas would *double* the error that it should remove. The factor 1/η
depends on the local training (steps, momentum), so, as in the paper, it is part of
the empirical λ, which is therefore not the λ of DC-ASGD.
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
    """Return the first-order correction `delta - lam * delta * delta * move`.

    Args:
        delta: A stale update.
        move: The change of the global weights since the update's base version.
        lam: λ, the strength of the correction.

    Example:
        >>> import torch
        >>> d, m = {"w": torch.tensor([2.0])}, {"w": torch.tensor([0.5])}
        >>> taylor(d, m, lam=0.25)["w"]
        tensor([1.5000])
    """
    return {name: d - lam * d * d * move[name] for name, d in delta.items()}


def check_lam(method: str, lam: float) -> None:
    """Raise ConfigError unless λ is finite and at least 0."""
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
    """What to do with an update whose base version is no longer stored: `keep` (use it unchanged)
    or `drop`."""

    def __post_init__(self) -> None:
        check_lam("first_order", self.lam)
        check_fallback(self.fallback)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Correct every stale update whose base version is still kept."""

        def treat(update: Update, view: ServerView) -> tuple[Update | None, Note]:
            base = view.history(update.base_version)
            if base is None:
                return fall_back(update, self.fallback, "the base weights are gone")
            delta = taylor(update.delta, subtract(view.params, base), self.lam)
            note = Note("compensated", update.client_id, update.base_version)
            return dataclasses.replace(update, delta=delta), note

        return per_update(updates, state, view, treat)
