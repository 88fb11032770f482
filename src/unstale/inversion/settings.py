"""Settings of the inversion, and presets of them."""

from dataclasses import dataclass
from typing import Any

from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion.arithmetic import PRECISIONS
from unstale.inversion.objective import terms_of
from unstale.inversion.paths import PATHS
from unstale.inversion.recipe import surrogate_recipe
from unstale.inversion.schedules import schedule_of
from unstale.inversion.surrogate import starts_of
from unstale.inversion.target import check_rate
from unstale.training.local import LocalSpec

OPTIMIZERS = ("adam", "signed")
LABELS = ("hard", "soft")
_NAMES = {"labels": LABELS, "optimizer": OPTIMIZERS, "path": PATHS, "precision": PRECISIONS}

# The settings grouped by theme, as the documentation and the command line show them. A test
# compares this with the fields.
THEMES: dict[str, tuple[str, ...]] = {
    "the surrogate": (
        "sample_share",
        "min_samples",
        "max_samples",
        "labels",
        "count_iterations",
        "start",
        "trial_iterations",
        "trial_loss",
        "noise",
        "bounded",
        "ensemble",
    ),
    "what is fitted": (
        "objective",
        "sparsity",
        "target_noise",
        "history",
        "tv",
        "entropy",
        "adam_eps",
    ),
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
    "speed and memory": ("updates_per_iteration", "path", "max_steps", "precision", "at_once"),
}


MAX_SHARE = 10
"""The largest `sample_share`; the paper tries surrogates of up to ten times a client's size."""


@dataclass(frozen=True, slots=True)
class Inversion:
    """The settings of an inversion: how a surrogate is fitted to a client's updates.

    `THEMES` lists them by theme, as `unstale methods convert` shows them.

    Memory, for each surrogate that is fitted at the same time: the autograd graphs of u·k
    local steps, and 2·h·w floats and h·w booleans, where h is `history`, u the part of it
    that an iteration looks at (`updates_per_iteration`), k the number of local steps and w the
    number of weights. With the path `along` it is the graphs of u local steps; and u·k·w floats
    if clients use Adam.

    Example:
        >>> Inversion().num_samples(450)
        128
        >>> Inversion(max_samples=400, sample_share=0.5).num_samples(450)
        225
    """

    # --- the surrogate
    sample_share: float = 1.0
    """Size of the surrogate, as a share of the client's `num_examples`; from above 0 to 10."""
    min_samples: int = 16
    """The smallest number of samples in a surrogate."""
    max_samples: int = 128
    """The largest number of samples in a surrogate."""
    labels: str = "soft"
    """`soft`: labels are learned with the inputs, as in the paper. `hard`: each sample has one
    class, as a client's has; a first fit finds out how many samples of each there are."""
    count_iterations: int = 40
    """Iterations of a first fit with `hard` labels in which the classes are counted, after those
    in which the start is chosen; at most about a third of the iterations that are left."""
    start: str = "auto"
    """Initial inputs and labels of a client's first surrogate: `grey` (`InputSpec.middle`),
    `halfway` (the midpoint of the bounds) or `zeros`, each plus `noise`, `classes` (smooth
    patterns, each sample favouring a class), `gaussian` (unit Gaussian), or several joined by
    `+`, which are all tried; `borrowed` among them is the surrogate of a client with a similar
    update. `auto` is `grey+classes+gaussian+borrowed`."""
    trial_iterations: int = 20
    """If there are several starts: the iterations after which one of them is chosen. It is
    fitted for the rest of `iterations`, and the others are dropped."""
    trial_loss: float = 0.5
    """The first of several starts is chosen if its loss (per term of the objective) is then at
    most this, or at most 1.3 times the least one's; otherwise the one of the least loss."""
    noise: float = 0.05
    """Standard deviation of the noise in the initial inputs, as a share of their range."""
    bounded: bool = True
    """Whether inputs are clamped to the bounds of the data."""
    ensemble: int = 1
    """Number of surrogates of a client, each fitted from a start of its own, whose estimates are
    averaged. More of them usually err less; time and memory grow with their number."""
    # --- what is fitted
    objective: str = "l2"
    """Disparity between the surrogate's update and the client's: `l1`, `l2`, `cosine`, or a
    sum such as `l1+cosine`."""
    sparsity: float = 0.0
    """Share of the update's entries, smallest in magnitude first, that the objective ignores; 0
    uses all."""
    target_noise: float = 0.0
    """Variance of Gaussian noise that is added to the entries that count before the fit, the same
    in every fit of one update; 0 for none. The paper's is 1e-3."""
    history: int = 4
    """Number of the client's latest updates that one surrogate is fitted to, including the
    newest. `convert` remembers all but the newest for each client, and each version that they
    started from once."""
    tv: float = 0.0
    """Weight of the total variation of the inputs in the objective; 0 for none."""
    entropy: float = 0.0
    """Weight of the labels' mean entropy in the objective; 0 for none. While classes are counted
    it is at least 0.1."""
    adam_eps: float = 1e-3
    """Least constant in the denominator of Adam when a surrogate is trained, if clients use Adam:
    see `unstale.inversion.recipe`. 0 trains it exactly as clients do."""
    # --- the optimizer
    optimizer: str = "adam"
    """`adam`, or `signed`: Adam on the sign of the gradient."""
    lr: float = 0.05
    """Learning rate of the inputs, as a share of their range if they are bounded."""
    label_lr: float = 0.5
    """Learning rate of the label logits; 0 keeps labels as they are."""
    warm_lr: float = 1.0
    """Factor on both learning rates in a warm fit."""
    schedule: str = "constant"
    """Learning-rate schedule: `constant`, `cosine`, or `paper` (divided by 10 at 3/8, 5/8 and
    7/8 of the iterations). Plateau cuts (`max_lr_cuts`) apply on top."""
    shrink_steps_below: float = 0.1
    """Below this loss (per term of the objective) steps are scaled by loss / threshold; 0
    never scales them."""
    # --- when it stops
    iterations: int = 150
    """Maximum iterations of a client's first (cold) fit."""
    warm_iterations: int = 32
    """Maximum iterations of a warm fit, which starts from the client's last surrogate."""
    warm_min_iterations: int = 12
    """A warm fit whose loss is at most `good_loss` stops after this many iterations."""
    good_loss: float = 0.02
    """Loss (per term of the objective) at which a warm fit may stop early; 0 never stops it."""
    patience: int = 10
    """Iterations between two checks for a plateau of the loss; 0 never checks."""
    tolerance: float = 0.05
    """The loss is on a plateau if it fell by less than this share in `patience` iterations."""
    max_lr_cuts: int = 2
    """How many plateaus multiply the learning rate by 0.3; the next plateau ends the fit."""
    max_seconds: float | None = None
    """Maximum seconds of one client's fit; no limit if not given. With a limit, results
    depend on the speed of the machine."""
    # --- what is trusted
    restart_loss: float = 0.4
    """A warm fit that ends above this loss (per term of the objective) is repeated from a cold
    start, and the better of both is used; 0 never repeats."""
    max_loss: float = 0.6
    """A fit that ends above this loss (per term of the objective) counts as failed. A surrogate
    whose training changes nothing has loss 1."""
    residual: bool = True
    """Whether the unexplained part of the update is added to the estimate:
    U(w_t) + β·(Δ − U(w_0)), where U(w) is the surrogate's update from weights w; see
    `with_residual`."""
    # --- speed and memory
    updates_per_iteration: int = 1
    """How many of the `history` updates each iteration of a fit looks at, in turn: time and memory
    of an iteration grow with it."""
    path: str = "auto"
    """How a fit is differentiated: `exact` (through the trained weights; memory grows with the
    number of local steps), `along` (at the weights as they are; memory of one step), or `auto`
    (`exact` up to 20 local steps, `along` above)."""
    max_steps: int = 20
    """Maximum local steps of a surrogate: a longer recipe of SGD is run in this many larger
    steps, one of Adam stays as it is; 0 for no limit."""
    precision: str = "float32"
    """Arithmetic of matrix products and convolutions on a GPU: `float32`, or `tf32`
    (TensorFloat-32, faster on NVIDIA's Ampere and later)."""
    at_once: int = 16
    """Maximum number of surrogates fitted in one batch; bounds the memory."""

    def __post_init__(self) -> None:
        def require(holds: bool, rule: str, found: object) -> None:
            if not holds:
                raise ConfigError(f"Inversion: {rule}. Found {found!r}.")

        for name in (
            "ensemble",
            "min_samples",
            "max_samples",
            "count_iterations",
            "trial_iterations",
            "iterations",
            "warm_iterations",
            "warm_min_iterations",
            "history",
            "updates_per_iteration",
            "at_once",
        ):
            value = getattr(self, name)
            require(
                type(value) is int and value > 0, f"`{name}` should be a positive integer", value
            )
        require(
            self.labels != "hard" or self.label_lr > 0,
            "`label_lr` should be above 0 with hard labels, which are learned as soft ones first",
            self.label_lr,
        )
        for name in ("lr", "warm_lr", "max_loss"):
            value = getattr(self, name)
            require(0 < value < float("inf"), f"`{name}` should be above 0 and finite", value)
        for name in (
            "adam_eps",
            "label_lr",
            "entropy",
            "noise",
            "target_noise",
            "tv",
            "tolerance",
            "trial_loss",
            "restart_loss",
            "good_loss",
            "shrink_steps_below",
        ):
            value = getattr(self, name)
            require(0 <= value < float("inf"), f"`{name}` should be at least 0 and finite", value)
        require(
            self.min_samples <= self.max_samples,
            "`min_samples` should not be above `max_samples`",
            (self.min_samples, self.max_samples),
        )
        require(
            0 < self.sample_share <= MAX_SHARE,
            f"`sample_share` should be in (0, {MAX_SHARE}]",
            self.sample_share,
        )
        for name in ("patience", "max_lr_cuts", "max_steps"):
            value = getattr(self, name)
            require(type(value) is int and value >= 0, f"`{name}` should be an integer ≥ 0", value)
        require(
            self.max_seconds is None or self.max_seconds > 0,
            "`max_seconds` should be above 0",
            self.max_seconds,
        )
        for name, known in _NAMES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(f"Inversion: `{name}`", getattr(self, name), known)
        terms_of(self.objective)
        schedule_of(self.schedule)
        starts_of(self.start)
        check_rate(self.sparsity)

    def num_samples(self, num_examples: int) -> int:
        """Return the size of a surrogate for a client with `num_examples` examples."""
        wanted = round(self.sample_share * num_examples)
        return min(max(wanted, self.min_samples), self.max_samples)

    def local_for(self, local: LocalSpec, num_examples: int) -> LocalSpec:
        """Return the training recipe for the client's surrogate.

        The number of steps stays the client's, up to `max_steps`; a longer recipe is shortened
        (`unstale.inversion.recipe`). The batch size shrinks in proportion to the surrogate, so
        that each sample is used as often as a sample of the client.
        """
        samples = self.num_samples(num_examples)
        return surrogate_recipe(local, num_examples, samples, self.max_steps, self.adam_eps)


# The settings of the paper, and of the authors' code where the paper says nothing. The iterations
# are those of its text; the code has 40,000. No fit stops earlier (`patience` is 0).
_PAPER: dict[str, Any] = {
    "max_samples": 4096,
    "iterations": 15000,
    "warm_iterations": 15000,
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
    "sparsity": 0.95,
    "history": 1,
    "tv": 0.0,
    "adam_eps": 0.0,
    "sample_share": 0.5,
    "patience": 0,
    "restart_loss": 0.0,
    "max_loss": 0.9,
    "residual": False,
    "path": "exact",
    "max_steps": 0,
}
# Better estimates for several times the time and memory.
_THOROUGH: dict[str, Any] = {"max_samples": 225, "ensemble": 4}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": _PAPER,
    "paper_dense": {**_PAPER, "sparsity": 0.0},
    "no_residual": {"residual": False},
    "thorough": _THOROUGH,
}


def preset(name: str, **changes: Any) -> Inversion:
    """Return the settings of a preset.

    Args:
        name: `default`; `thorough` (four larger surrogates); `no_residual` (the default, but
            estimates are what training on the surrogate gives and nothing else); `paper` (as in
            the paper: signed Adam, L1, Gaussian start, one update, 95 % sparse, 15,000
            iterations); or `paper_dense` (the same, not sparse).
        changes: Fields to set differently, such as `iterations=500`. A later fit of a client has
            `warm_iterations`.

    Example:
        >>> short = preset("paper", iterations=500, warm_iterations=500)
        >>> short.objective, short.sparsity
        ('l1', 0.95)
    """
    if name not in PRESETS:
        raise UnknownNameError("A preset of Inversion", name, PRESETS)
    return Inversion(**{**PRESETS[name], **changes})
