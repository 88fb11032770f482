"""Surrogates: small data sets that train a model as a client's own data does.

What a fit finds depends on where it begins more than on how long it runs: many data sets
explain one update, and one near a plain typical value with even labels carries over to
other weights far better than one near noise. `STARTS` has the places to begin, by name.
Where all samples begin alike, a smooth network may treat them alike for ever; so several
starts can be tried at once (`unstale.inversion.cold_start`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from unstale.errors import ConfigError, UnknownNameError

# Two standard deviations to each side.
_STANDARDISED_SPAN = 4.0
# The start `classes`: the size of its patterns as a share of the inputs' range, the points in
# each direction that they are interpolated from, and by how much a sample's class is favoured.
_PATTERN = 0.2
_POINTS = 4
_FAVOUR = 2.0
# Dimensions of an input -> how patterns are interpolated; features have no neighbours.
_INTERPOLATION = {2: "linear", 3: "bicubic", 4: "trilinear"}


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What one input of the model looks like.

    Example:
        >>> InputSpec(shape=(1, 28, 28), classes=10, low=0.0, high=1.0).middle
        0.5
        >>> InputSpec(shape=(225,), classes=6).middle
        0.0
    """

    shape: tuple[int, ...]
    """The shape of one input, without the dimension of samples."""
    classes: int
    """The number of classes: the length of a soft label."""
    low: float | None = None
    """The least value that an input can have; None where there is none."""
    high: float | None = None
    """The greatest value that an input can have; None where there is none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))  # a TOML array is a list
        if not self.shape or not all(type(n) is int and n > 0 for n in self.shape):
            raise ConfigError(
                "InputSpec: `shape` should be one or more positive integers. "
                f"Found {self.shape!r}. Leave out the dimension of samples."
            )
        if type(self.classes) is not int or self.classes < 1:
            raise ConfigError(
                f"InputSpec: `classes` should be a positive integer. Found {self.classes!r}."
            )
        for name in ("low", "high"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ConfigError(
                    f"InputSpec: `{name}` should be finite. Found {value!r}. "
                    "Leave it out where inputs have no bound."
                )
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ConfigError(
                f"InputSpec: `low` should be below `high`. Found {self.low} and {self.high}."
            )

    @property
    def middle(self) -> float:
        """The plain value to begin from: 0 within the bounds, else halfway between them.

        Standardised data have their mean at 0, which is far from halfway: MNIST's pixels lie
        between -0.42 and 2.82. Where 0 is a bound itself (pixels in [0, 1]) or outside, halfway
        is the best that is known; with one bound alone, the allowed value nearest to 0.
        """
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if low < 0 < high:
            return 0.0
        if math.isfinite(low) and math.isfinite(high):
            return (low + high) / 2
        return min(max(0.0, low), high)

    @property
    def unit(self) -> float:
        """The range of an input, by which noise and steps are measured; 1 where unbounded.

        Data with 0 within their bounds are standardised, and bounds beyond two deviations to
        each side are where outliers were cut: sensors within ±10 hardly ever leave ±2.
        """
        if self.low is None or self.high is None:
            return 1.0
        span = self.high - self.low
        return min(span, _STANDARDISED_SPAN) if self.low < 0 < self.high else span

    def clamp(self, x: Tensor) -> Tensor:
        """Return `x` with every value brought within the bounds."""
        if self.low is None and self.high is None:
            return x
        return x.clamp(self.low, self.high)


@dataclass(frozen=True, slots=True, eq=False)
class Surrogate:
    """A small data set that trains a model as a client's own data does.

    Example:
        >>> Surrogate(torch.zeros(2, 3), torch.zeros(2, 4)).labels[0]
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    x: Tensor
    """Inputs `[samples, ...]`."""
    y_logits: Tensor
    """Labels before the softmax `[samples, classes]`."""

    @property
    def labels(self) -> Tensor:
        """The soft labels: probabilities `[samples, classes]`."""
        return self.y_logits.softmax(-1)

    def __len__(self) -> int:
        return len(self.x)

    def fits(self, inputs: InputSpec) -> bool:
        """Tell whether the tensors have this shape, at least one sample, and are finite."""
        return (
            len(self.x) > 0
            and self.x.shape[1:] == inputs.shape
            and self.y_logits.shape == (len(self.x), inputs.classes)
            and bool(torch.isfinite(self.x).all())
            and bool(torch.isfinite(self.y_logits).all())
        )


# (inputs, samples, noise, generator) -> surrogate on the CPU in single precision
Start = Callable[[InputSpec, int, float, torch.Generator], Surrogate]


def gaussian(
    inputs: InputSpec, samples: int, noise: float, generator: torch.Generator
) -> Surrogate:
    """Draw inputs and label logits from the unit Gaussian, as the paper does."""
    return Surrogate(*_normal(inputs, samples, generator))


def grey(inputs: InputSpec, samples: int, noise: float, generator: torch.Generator) -> Surrogate:
    """Begin at the plain value of the data (`InputSpec.middle`) with a little noise.

    The noise is that share of the inputs' range; labels are near uniform.
    """
    x, y = _normal(inputs, samples, generator)
    return Surrogate(inputs.clamp(inputs.middle + noise * inputs.unit * x), noise * y)


def halfway(inputs: InputSpec, samples: int, noise: float, generator: torch.Generator) -> Surrogate:
    """Begin halfway between the bounds, whatever lies there; as `grey` where there are not two."""
    if inputs.low is None or inputs.high is None:
        return grey(inputs, samples, noise, generator)
    x, y = _normal(inputs, samples, generator)
    middle = (inputs.low + inputs.high) / 2
    return Surrogate(inputs.clamp(middle + noise * inputs.unit * x), noise * y)


def zeros(inputs: InputSpec, samples: int, noise: float, generator: torch.Generator) -> Surrogate:
    """Begin at zero, the mean of standardised sensors, with a little noise."""
    x, y = _normal(inputs, samples, generator)
    return Surrogate(inputs.clamp(noise * inputs.unit * x), noise * y)


def classes(inputs: InputSpec, samples: int, noise: float, generator: torch.Generator) -> Surrogate:
    """Begin with samples that differ: each has a smooth pattern of its own, and a class.

    Patterns lie around the plain value (`InputSpec.middle`) and are smooth over positions
    (images, signals); features get plain noise of the same size. The label of sample i favours
    class i modulo the number of classes. So the samples' first gradients differ also in
    networks that hardly see fine noise.
    """
    x, y = _normal(inputs, samples, generator)
    x = noise * x + _PATTERN * _smooth(inputs.shape, samples, generator)
    favoured = torch.arange(samples) % inputs.classes
    y = noise * y + _FAVOUR * F.one_hot(favoured, inputs.classes)
    return Surrogate(inputs.clamp(inputs.middle + inputs.unit * x), y)


def _smooth(shape: tuple[int, ...], samples: int, generator: torch.Generator) -> Tensor:
    """Return noise of unit size that changes slowly over positions `[samples, *shape]`."""
    mode = _INTERPOLATION.get(len(shape))
    if mode is None:
        return torch.randn(samples, *shape, generator=generator)
    points = [min(_POINTS, size) for size in shape[1:]]
    coarse = torch.randn(samples, shape[0], *points, generator=generator)
    fine = F.interpolate(coarse, size=shape[1:], mode=mode, align_corners=False)
    return fine / fine.square().mean().sqrt()


def _normal(inputs: InputSpec, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(samples, *inputs.shape, generator=generator)
    return x, torch.randn(samples, inputs.classes, generator=generator)


STARTS: dict[str, Start] = {
    "classes": classes,
    "gaussian": gaussian,
    "grey": grey,
    "halfway": halfway,
    "zeros": zeros,
}


# The surrogate of another client, where a request has one.
BORROWED = "borrowed"
AUTO = ("grey", "classes", "gaussian", BORROWED)
"""What `auto` tries, the preferred start first."""


def start_of(name: str) -> Start:
    """Return the start of that name."""
    if name not in STARTS:
        raise UnknownNameError("A start", name, STARTS)
    return STARTS[name]


def starts_of(names: str) -> tuple[str, ...]:
    """Return the starts that `names` stands for, the preferred one first.

    Example:
        >>> starts_of("grey+gaussian")
        ('grey', 'gaussian')
        >>> starts_of("auto")
        ('grey', 'classes', 'gaussian', 'borrowed')
    """
    if names == "auto":
        return AUTO
    found = tuple(part.strip() for part in str(names).split("+"))
    for name in found:
        if name not in STARTS and name != BORROWED:
            raise UnknownNameError("A start", name, ("auto", *STARTS, BORROWED))
    if found[0] == BORROWED:
        raise ConfigError(
            f"The first start should be one that every client has. Found {names!r}. "
            f"Put another before it, such as 'grey+{BORROWED}'."
        )
    if len({*found}) < len(found):
        raise ConfigError(f"Starts should be named once each. Found {names!r}. Leave one out.")
    return found


def warmed(warm: Surrogate, fresh: Surrogate) -> Surrogate:
    """Return `warm` with as many samples as `fresh`: cut, or filled up from it."""
    n = len(fresh)
    return Surrogate(
        torch.cat([warm.x[:n].to(fresh.x), fresh.x[len(warm) :]]),
        torch.cat([warm.y_logits[:n].to(fresh.x), fresh.y_logits[len(warm) :]]),
    )
