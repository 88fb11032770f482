"""The settings of an inversion, and the presets."""

from dataclasses import dataclass, replace
from typing import Any

from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion.objective import terms_of
from unstale.inversion.schedules import schedule_of
from unstale.inversion.surrogate import start_of
from unstale.inversion.target import check_rate
from unstale.training.local import LocalSpec

OPTIMIZERS = ("adam", "signed")

# The settings by theme, for people who look for one; a test compares this with the fields.
THEMES: dict[str, tuple[str, ...]] = {
    "the surrogate": (
        "sample_share",
        "min_samples",
        "max_samples",
        "start",
        "noise",
        "bounded",
    ),
    "what is fitted": ("objective", "sparsity", "history", "tv"),
    "the optimizer": (
        "optimizer",
        "lr",
        "label_lr",
        "warm_lr",
        "schedule",
        "shrink_steps_below",
    ),
    "when it stops": (
        "iterations",
        "warm_iterations",
        "warm_min_iterations",
        "good_loss",
        "patience",
        "tolerance",
        "max_lr_cuts",
        "max_seconds",
    ),
    "what is trusted": ("restart_loss", "max_loss", "residual"),
    "batching": ("at_once",),
}


@dataclass(frozen=True, slots=True)
class Inversion:
    """The settings of an inversion: how a surrogate is fitted to a client's updates.

    `THEMES` lists them by theme, as `unstale methods convert` shows them.

    Memory: fitting h updates of w weights to n samples with k local steps holds the
    graphs of h·k steps, and 2·h·w numbers and h·w bits besides, for each client at once.

    Example:
        >>> Inversion().num_samples(450)
        128
        >>> Inversion(max_samples=400).num_samples(450)
        225
    """

    # --- the surrogate
    sample_share: float = 0.5
    """Samples of the surrogate as a share of the client's `num_examples`."""
    min_samples: int = 16
    """The fewest samples of a surrogate."""
    max_samples: int = 128
    """The most samples of a surrogate."""
    start: str = "grey"
    """Where a first surrogate starts: `grey` (at `InputSpec.middle`), `halfway` (between the
    bounds), `zeros` or `gaussian`."""
    noise: float = 0.05
    """Standard deviation of the noise added to the start, as a share of the inputs' range."""
    bounded: bool = True
    """Whether inputs are clamped to the bounds of the data."""
    # --- what is fitted
    objective: str = "l2"
    """Disparity between the surrogate's update and the client's: `l1`, `l2`, `cosine`, or a
    sum such as `l1+cosine`."""
    sparsity: float = 0.95
    """Share of the update's entries that the objective ignores, smallest first; 0 uses all."""
    history: int = 1
    """How many of the client's last updates are fitted at once, the newest among them."""
    tv: float = 0.0
    """Weight of the total variation of the inputs, added to the objective."""
    # --- the optimizer
    optimizer: str = "adam"
    """`adam`, or `signed`: Adam on the signs of the gradient."""
    lr: float = 0.05
    """Learning rate of inputs, as a share of their range where they are bounded."""
    label_lr: float = 0.5
    """Learning rate of the label logits."""
    warm_lr: float = 1.0
    """Both learning rates are multiplied by this in a warm fit."""
    schedule: str = "constant"
    """Learning-rate schedule; plateau cuts apply on top: `constant`, `cosine`, or `paper` (a
    tenth at 3/8, 5/8 and 7/8 of the iterations)."""
    shrink_steps_below: float = 0.1
    """Below this loss (for each term of the objective) steps scale with loss / threshold; 0:
    never."""
    # --- when it stops
    iterations: int = 150
    """The most iterations of a client's first (cold) fit."""
    warm_iterations: int = 25
    """The most iterations of a warm fit, which improves the client's last surrogate."""
    warm_min_iterations: int = 12
    """A warm fit with a loss of at most `good_loss` stops after this many iterations."""
    good_loss: float = 0.05
    """The loss (for each term of the objective) at which a warm fit is good; 0: never."""
    patience: int = 10
    """Iterations between two checks for a plateau; 0: never checked."""
    tolerance: float = 0.05
    """A plateau: the loss fell by less than this share over `patience` iterations."""
    max_lr_cuts: int = 2
    """How often a plateau cuts the learning rate to 0.3 of it; the next plateau ends the fit."""
    max_seconds: float | None = None
    """Seconds that one client's fit may take; no bound when not given. With a bound results
    depend on the machine."""
    # --- what is trusted
    restart_loss: float = 0.2
    """A warm fit above this loss (for each term of the objective) is tried again from a cold
    start, and the better one counts; 0: never."""
    max_loss: float = 0.3
    """A fit above this loss (for each term of the objective) has failed; a surrogate that
    changes nothing has a loss of 1."""
    residual: bool = True
    """Whether the part of the update that the surrogate does not explain is added back to the
    estimate, scaled by γ: U(w_t) + γ·(Δ − U(w_0)), see `with_residual`."""
    # --- batching
    at_once: int = 16
    """The most clients that are fitted at once, which bounds the memory."""

    def __post_init__(self) -> None:
        def require(holds: bool, rule: str, found: object) -> None:
            if not holds:
                raise ConfigError(f"Inversion: {rule}. Found {found!r}.")

        for name in (
            "min_samples",
            "max_samples",
            "iterations",
            "warm_iterations",
            "warm_min_iterations",
            "history",
            "at_once",
        ):
            value = getattr(self, name)
            require(
                type(value) is int and value > 0, f"`{name}` should be a positive integer", value
            )
        for name in ("lr", "label_lr", "warm_lr", "max_loss"):
            value = getattr(self, name)
            require(0 < value < float("inf"), f"`{name}` should be above 0 and finite", value)
        for name in ("noise", "tv", "tolerance", "restart_loss", "good_loss", "shrink_steps_below"):
            value = getattr(self, name)
            require(0 <= value < float("inf"), f"`{name}` should be at least 0 and finite", value)
        require(
            self.min_samples <= self.max_samples,
            "`min_samples` should not be above `max_samples`",
            (self.min_samples, self.max_samples),
        )
        require(0 < self.sample_share <= 1, "`sample_share` should be in (0, 1]", self.sample_share)
        for name in ("patience", "max_lr_cuts"):
            value = getattr(self, name)
            require(type(value) is int and value >= 0, f"`{name}` should be an integer ≥ 0", value)
        require(
            self.max_seconds is None or self.max_seconds > 0,
            "`max_seconds` should be above 0",
            self.max_seconds,
        )
        if self.optimizer not in OPTIMIZERS:
            raise UnknownNameError("Inversion: `optimizer`", self.optimizer, OPTIMIZERS)
        terms_of(self.objective)
        schedule_of(self.schedule)
        start_of(self.start)
        check_rate(self.sparsity)

    def num_samples(self, num_examples: int) -> int:
        """Return the surrogate's size for a client that reports so many examples."""
        wanted = round(self.sample_share * num_examples)
        return min(max(wanted, self.min_samples), self.max_samples)

    def local_for(self, local: LocalSpec, num_examples: int) -> LocalSpec:
        """Return the client's recipe for a surrogate of another size.

        The number of steps is the client's, so that weights move as often; batches
        shrink in proportion, so that every sample is seen as often.
        """
        steps = local.num_steps(num_examples)
        if local.batch_size is None or local.batch_size >= num_examples:
            return replace(local, epochs=None, steps=steps, batch_size=None)
        batches = -(-num_examples // local.batch_size)
        size = -(-self.num_samples(num_examples) // batches)
        return replace(local, epochs=None, steps=steps, batch_size=size)


# As the authors' code does it: nothing but one update, noise, signs and many iterations.
_PAPER: dict[str, Any] = {
    "max_samples": 4096,
    "iterations": 2000,
    "warm_iterations": 2000,
    "good_loss": 0.0,
    "objective": "l1",
    "optimizer": "signed",
    "lr": 0.1,
    "label_lr": 0.1,
    "warm_lr": 1.0,
    "shrink_steps_below": 0.0,
    "schedule": "paper",
    "start": "gaussian",
    "bounded": False,
    "sparsity": 0.0,
    "history": 1,
    "tv": 0.0,
    "patience": 0,
    "restart_loss": 0.0,
    "max_loss": 0.9,
    "residual": False,
}
# Several times the default's time and memory, for servers that have them to spare.
_THOROUGH: dict[str, Any] = {"history": 4, "max_samples": 225, "warm_iterations": 50}
PRESETS: dict[str, dict[str, Any]] = {"default": {}, "paper": _PAPER, "thorough": _THOROUGH}


def preset(name: str, **changes: Any) -> Inversion:
    """Return the settings of a preset, with changes.

    Args:
        name: `default`; `thorough`: more samples and iterations, fitted to four updates; or
            `paper`: signed Adam, L1, Gaussian start, one update and the authors'
            learning-rate steps.
        changes: Fields that differ, such as `iterations`.

    Example:
        >>> preset("paper", iterations=500).objective
        'l1'
    """
    if name not in PRESETS:
        raise UnknownNameError("A preset of Inversion", name, PRESETS)
    return Inversion(**{**PRESETS[name], **changes})
