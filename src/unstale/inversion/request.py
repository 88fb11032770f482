"""Request, Fit and Conversion: what a conversion is asked and what it returns."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from unstale.errors import ConfigError
from unstale.inversion.surrogate import Surrogate
from unstale.params import Params

# One update that a client sent: the weights it started from, and what it changed.
Sent = tuple[Params, Params]


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One client's stale update, to be converted."""

    base: Params
    """The weights that the client started from."""
    delta: Params
    """What its training changed."""
    num_examples: int
    """How many examples it trained on."""
    past: Sequence[Sent] = ()
    """Its earlier updates `(base, delta)`, the newest last."""
    warm: Surrogate | None = None
    """The surrogate of its last conversion, to start from."""
    seed: int = 0
    """Seeds the noise of the start."""
    borrowed: Surrogate | None = None
    """The surrogate of another client with a similar update: a start to try in a cold fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The surrogate that was found for one request."""

    surrogate: Surrogate | None
    """None where the fit failed."""
    loss: float
    """The disparity of the fit; NaN where none was tried."""
    losses: tuple[float, ...]
    """The disparity at each iteration."""
    seconds: float
    """This update's share of the time."""
    warm: bool = False
    """Whether the fit started from the client's last surrogate."""
    reason: str = ""
    """Why it failed."""

    @property
    def ok(self) -> bool:
        """Whether there is a surrogate."""
        return self.surrogate is not None


@dataclass(frozen=True, slots=True, eq=False)
class Conversion:
    """What became of one stale update."""

    delta: dict[str, Tensor]
    """The estimate of the fresh update; where `ok` is false, the stale update as it came
    (zeros where that is not finite)."""
    surrogate: Surrogate | None
    """The surrogate to start from next time; None where `ok` is false."""
    loss: float
    """The disparity of the fit; NaN where none was tried."""
    losses: tuple[float, ...]
    """The disparity at each iteration."""
    seconds: float
    """This update's share of the time."""
    ok: bool
    """Whether `delta` is an estimate."""
    reason: str = ""
    """Why it is not."""
    warm: bool = False
    """Whether the fit started from the client's last surrogate."""
    explained: dict[str, Tensor] | None = None
    """What training the surrogate from the update's own base changes; None where `ok` is false
    or `Inversion.residual` is off, which does not need it."""

    @property
    def iterations(self) -> int:
        """How many iterations the fit took."""
        return len(self.losses)


def check_requests(
    model: nn.Module, requests: Sequence[Request], current: Params | None = None
) -> None:
    """Raise unless all weights and updates have the model's names and shapes."""
    shapes = {n: p.shape for n, p in model.named_parameters()}

    def check(what: str, params: Params) -> None:
        found = {n: p.shape for n, p in params.items()}
        if found != shapes:
            wrong = sorted(n for n in {*found, *shapes} if found.get(n) != shapes.get(n))
            raise ConfigError(
                f"convert: `{what}` should have the model's parameters and shapes. "
                f"Found a difference in {', '.join(wrong)}."
            )

    if current is not None:
        check("current", current)
    for request in requests:
        if request.num_examples < 1:
            raise ConfigError(
                f"convert: `num_examples` should be at least 1. Found {request.num_examples}."
            )
        check("base", request.base)
        check("delta", request.delta)
        for base, delta in request.past:
            check("past", base)
            check("past", delta)
