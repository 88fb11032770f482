"""Where a surrogate begins, by name.

What a fit finds depends on where it begins more than on how long it runs: many
data sets explain one update, and the one that is near a plain typical value
with even labels carries over to other weights far better than one near noise.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from unstale.errors import UnknownNameError
from unstale.inversion.surrogate import InputSpec, Surrogate

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


def _normal(inputs: InputSpec, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(samples, *inputs.shape, generator=generator)
    return x, torch.randn(samples, inputs.classes, generator=generator)


STARTS: dict[str, Start] = {
    "gaussian": gaussian,
    "grey": grey,
    "halfway": halfway,
    "zeros": zeros,
}


def start_of(name: str) -> Start:
    """Return the start of that name."""
    if name not in STARTS:
        raise UnknownNameError("A start", name, STARTS)
    return STARTS[name]


def warmed(warm: Surrogate, fresh: Surrogate) -> Surrogate:
    """Return `warm` with as many samples as `fresh`: cut, or filled up from it."""
    n = len(fresh)
    return Surrogate(
        torch.cat([warm.x[:n].to(fresh.x), fresh.x[len(warm) :]]),
        torch.cat([warm.y_logits[:n].to(fresh.x), fresh.y_logits[len(warm) :]]),
    )
