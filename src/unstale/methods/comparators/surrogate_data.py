"""SurrogateData: the settings that all comparators share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unstale.errors import ConfigError
from unstale.inversion import Inversion
from unstale.methods.comparators.labels import check_shares, even_shares, guessed_shares
from unstale.updates import Update

LABELS = ("guessed", "even")


@dataclass(frozen=True, slots=True)
class SurrogateData:
    """How much surrogate data a comparator makes, with which labels, and what becomes of it.

    Example:
        >>> SurrogateData(max_samples=64).training.num_samples(450)
        64
    """

    max_samples: int = 128
    """The largest number of samples; else as many as the client has, and at least 16. This is
    conversion's rule."""
    labels: str = "guessed"
    """The share of each class: `guessed` from the update of the output layer, or `even`."""
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Known shares of classes by client id, such as `{c07 = [0, 1, 0]}`; they take precedence."""
    soft_labels: bool = False
    """Whether samples are trained with the outputs of the client's model instead of the labels
    that they were made for, as in knowledge distillation."""
    residual: bool = False
    """Whether the part of the stale update that the samples do not explain is added to the
    estimate, as conversion does by default."""
    warm_start: bool = True
    """Whether work for a client's next update starts from the result of the last one."""
    max_growth: float = 10.0
    """The stale update is used instead of an estimate whose norm is more than this many times
    the stale update's; 0 for no limit."""
    max_clients: int = 1000
    """Maximum number of clients whose samples are kept: those heard of last."""

    def __post_init__(self) -> None:
        if self.labels not in LABELS:
            raise ConfigError(
                f"surrogate: `labels` should be one of {LABELS}. Found {self.labels!r}."
            )
        for name in ("max_samples", "max_clients"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"surrogate: `{name}` should be a positive integer. Found {value!r}."
                )
        if not (self.max_growth >= 0 and math.isfinite(self.max_growth)):
            raise ConfigError(
                f"surrogate: `max_growth` should be at least 0. Found {self.max_growth!r}."
            )
        object.__setattr__(self, "shares", check_shares(self.shares))

    @property
    def training(self) -> Inversion:
        """How the current model is trained on the samples: by the client's recipe in full."""
        return Inversion(
            max_samples=self.max_samples,
            min_samples=min(16, self.max_samples),
            max_steps=0,
            adam_eps=0.0,
            residual=self.residual,
        )

    def shares_of(self, update: Update, classes: int) -> list[float]:
        """Return the share of each class for a client's samples.

        Raises:
            ConfigError: If known shares are not as many as there are classes.
        """
        known = self.shares.get(update.client_id)
        if known is not None:
            if len(known) != classes:
                raise ConfigError(
                    f"surrogate: `shares` should be {classes} numbers, one for each class. "
                    f"Found {len(known)} for '{update.client_id}'."
                )
            return [share / sum(known) for share in known]
        if self.labels == "even":
            return even_shares(classes)
        return guessed_shares(update.delta, classes)


def check_settings(
    method: str, part: object, whole: dict[str, int], numbers: Sequence[str]
) -> None:
    """Check the settings of a comparator.

    Args:
        method: Its name, for messages.
        part: The dataclass.
        whole: Settings that should be integers, each with its least value.
        numbers: Settings that should be finite numbers of at least 0.

    Raises:
        ConfigError: If one of them is not.
    """
    for name, least in whole.items():
        value = getattr(part, name)
        if type(value) is not int or value < least:
            raise ConfigError(
                f"{method}: `{name}` should be an integer of at least {least}. Found {value!r}."
            )
    for name in numbers:
        value = getattr(part, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and math.isfinite(value) and value >= 0):
            raise ConfigError(
                f"{method}: `{name}` should be a number of at least 0. Found {value!r}."
            )
