r"""FedAdagrad, FedAdam and FedYogi: a step of its own size for every weight.

All three are Algorithm 2 of Reddi et al. and differ in the second moment alone:

$$ m_t = \beta_1 m_{t-1} + (1 - \beta_1)\,\Delta_t, \qquad
   w_{t+1} = w_t + \eta\,\frac{m_t}{\sqrt{v_t} + \tau}. $$

As published there is no bias correction: $m_{-1} = 0$ and $v_{-1} = \tau^2$, the smallest that
the paper allows. With $\beta_1 = 0.9$ the first steps are small and grow over about ten rounds.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unstale.methods.server_optimizers.base import Moved
from unstale.methods.server_optimizers.settings_checks import (
    check_decay,
    check_initial_v,
    check_lr,
    check_tau,
)
from unstale.params import Params
from unstale.updates import State


@dataclass(frozen=True, slots=True)
class _Adaptive(ABC):
    """The settings and the step that the three share."""

    _name: ClassVar[str]
    lr: float = 0.1
    """η, the server's learning rate: about how far a weight moves in a round whose changes are
    large against tau."""
    beta1: float = 0.9
    """β₁, the decay of the first moment."""
    tau: float = 1e-3
    """τ, the degree of adaptivity: changes that are small against it are not enlarged to lr."""
    initial_v: float | None = None
    """v₋₁, the second moment before the first round; τ² if not given. Flower begins with 0."""

    def __post_init__(self) -> None:
        check_lr(self._name, self.lr)
        check_decay(self._name, "beta1", self.beta1)
        check_tau(self._name, self.tau)
        check_initial_v(self._name, self.initial_v)

    def init(self) -> State:
        """Return the empty state."""
        return {}

    def move(self, params: Params, change: Params, state: State) -> Moved:
        """Update both moments and move every weight by its own step."""
        first = self._first(change, state.get("first"))
        before = state.get("second") or self._before(change)
        second = {n: self._second(before[n], p.square()) for n, p in change.items()}
        moved = {
            n: p + self.lr * first[n] / (second[n].sqrt() + self.tau) for n, p in params.items()
        }
        return Moved(moved, {"first": first, "second": second})

    def _first(self, change: Params, before: Params | None) -> dict[str, Tensor]:
        new = 1 - self.beta1
        if before is None:
            return {n: new * p for n, p in change.items()}
        return {n: self.beta1 * before[n] + new * p for n, p in change.items()}

    def _before(self, change: Params) -> Mapping[str, Tensor]:
        value = self.tau**2 if self.initial_v is None else self.initial_v
        return {n: torch.full_like(p, value) for n, p in change.items()}

    @abstractmethod
    def _second(self, before: Tensor, square: Tensor) -> Tensor:
        """Return the second moment, from the one before and the squared change."""


@dataclass(frozen=True, slots=True)
class FedAdagrad(_Adaptive):
    r"""Adagrad on the server: $v_t = v_{t-1} + \Delta_t^2$.

    Steps only become smaller. As in the paper's experiments there is no momentum by default.

    Example:
        >>> import torch
        >>> optimizer = FedAdagrad(lr=0.1, tau=1.0, initial_v=0.0)
        >>> change = {"w": torch.tensor([1.0])}
        >>> optimizer.move({"w": torch.zeros(1)}, change, optimizer.init()).params
        {'w': tensor([0.0500])}

    References:
        Reddi et al., "Adaptive Federated Optimization", 2021.
    """

    _name: ClassVar[str] = "fedadagrad"
    beta1: float = 0.0
    """β₁, the decay of the first moment; 0 for none."""

    def _second(self, before: Tensor, square: Tensor) -> Tensor:
        return before + square


@dataclass(frozen=True, slots=True)
class FedAdam(_Adaptive):
    r"""Adam on the server: $v_t = \beta_2 v_{t-1} + (1 - \beta_2)\,\Delta_t^2$.

    Example:
        >>> FedAdam(lr=0.05)
        FedAdam(lr=0.05, beta1=0.9, tau=0.001, initial_v=None, beta2=0.99)

    References:
        Reddi et al., "Adaptive Federated Optimization", 2021.
    """

    _name: ClassVar[str] = "fedadam"
    beta2: float = 0.99
    """β₂, the decay of the second moment."""

    def __post_init__(self) -> None:
        _Adaptive.__post_init__(self)
        check_decay(self._name, "beta2", self.beta2)

    def _second(self, before: Tensor, square: Tensor) -> Tensor:
        return self.beta2 * before + (1 - self.beta2) * square


@dataclass(frozen=True, slots=True)
class FedYogi(_Adaptive):
    r"""Yogi on the server: $v_t = v_{t-1} \pm (1 - \beta_2)\,\Delta_t^2$.

    Plus where the square is above $v_{t-1}$, minus where it is below. So the second moment falls
    more slowly than Adam's where changes become small, and a weight that seldom moves is not
    suddenly moved far.

    References:
        Reddi et al., "Adaptive Federated Optimization", 2021.
    """

    _name: ClassVar[str] = "fedyogi"
    beta2: float = 0.99
    """β₂: how much of a squared change the second moment takes on is 1 − β₂."""

    def __post_init__(self) -> None:
        _Adaptive.__post_init__(self)
        check_decay(self._name, "beta2", self.beta2)

    def _second(self, before: Tensor, square: Tensor) -> Tensor:
        return before - (1 - self.beta2) * square * torch.sign(before - square)
