"""Protection of an update on the client, before it is sent.

For the update Δ of a client, in this order:

    Δ ← Δ on the entries of the largest size, 0 elsewhere     (`sparsity`)
    Δ ← Δ · min(1, C / ‖Δ‖₂)                                  (`clip` = C)
    Δ ← Δ + n,  n ~ N(0, σ²) in every entry                   (`noise_variance` = σ²,
                                                               or `noise_multiplier` = σ / C)

This is the order of the paper, which adds noise after sparsification. Noise goes to every entry,
also to those that sparsification has set to zero: otherwise the positions of the others would say
something about the data, whatever the noise. With `clip` and noise the result is differentially
private (`accounting.py`), since neither step before the noise can make ‖Δ‖₂ larger than C.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.errors import ConfigError
from unstale.inversion.target import top_mask
from unstale.params import Params, flatten, norm, scale, zeros_like


@dataclass(frozen=True, slots=True)
class Protection:
    """What a client does to its update before it sends it: sparsify, clip, add noise.

    Nothing by default. With `clip` and noise, updates are differentially private at the level of
    clients: `unstale.privacy.spent` says how much.

    Example:
        >>> Protection(sparsity=0.95, noise_variance=1e-3).is_private
        False
        >>> Protection(clip=0.5, noise_multiplier=2.0).noise_std
        1.0
    """

    sparsity: float = 0.0
    """Share of the update's entries, smallest in magnitude first, that are set to zero; 0 keeps
    all. The paper's rate is 0.95."""
    clip: float | None = None
    """The largest L2 norm of an update: a longer one is scaled down to it; no limit if left out."""
    noise_variance: float = 0.0
    """Variance of the Gaussian noise that is added to every entry; 0 for none. The paper's is
    1e-3."""
    noise_multiplier: float = 0.0
    """Standard deviation of that noise as a multiple of `clip`, instead of `noise_variance`; 0 for
    none."""
    delta: float = 1e-5
    """The δ for which ε is reported. It should be well below 1 / number of clients."""

    def __post_init__(self) -> None:
        def require(holds: bool, rule: str, found: object) -> None:
            if not holds:
                raise ConfigError(f"Protection: {rule}. Found {found!r}.")

        for name in ("noise_variance", "noise_multiplier"):
            value = getattr(self, name)
            require(0 <= value < math.inf, f"`{name}` should be at least 0 and finite", value)
        require(0 <= self.sparsity < 1, "`sparsity` should be in [0, 1)", self.sparsity)
        require(
            self.clip is None or 0 < self.clip < math.inf,
            "`clip` should be above 0 and finite, or left out",
            self.clip,
        )
        require(0 < self.delta < 1, "`delta` should be in (0, 1)", self.delta)
        require(
            not (self.noise_variance and self.noise_multiplier),
            "noise should be given by `noise_variance` or by `noise_multiplier`, not by both",
            (self.noise_variance, self.noise_multiplier),
        )
        require(
            not self.noise_multiplier or self.clip is not None,
            "`noise_multiplier` should come with `clip`, of which it is a multiple",
            self.noise_multiplier,
        )

    @property
    def enabled(self) -> bool:
        """Whether anything is done to an update."""
        return bool(self.sparsity or self.clip is not None or self.noise_std)

    @property
    def noise_std(self) -> float:
        """Standard deviation σ of the noise in every entry."""
        return math.sqrt(self.noise_variance) or self.noise_multiplier * (self.clip or 0.0)

    @property
    def is_private(self) -> bool:
        """Whether updates are differentially private: clipped, and with noise."""
        return self.clip is not None and self.noise_std > 0


def protect(delta: Params, protection: Protection, generator: torch.Generator) -> dict[str, Tensor]:
    """Return the update as it is sent.

    Args:
        delta: The update, as training gave it.
        protection: What is done to it.
        generator: Draws the noise. Outside a simulation nobody else may know its seed: whoever
            does can subtract the noise.
    """
    kept = clipped(sparsified(delta, protection.sparsity), protection.clip)
    return with_noise(kept, protection.noise_std, generator)


def sparsified(delta: Params, sparsity: float) -> dict[str, Tensor]:
    """Return the update with its smallest entries set to zero, chosen over the whole vector.

    Example:
        >>> sparsified({"a": torch.tensor([1.0, -3.0]), "b": torch.tensor([2.0])}, 2 / 3)
        {'a': tensor([ 0., -3.]), 'b': tensor([0.])}
    """
    mask = top_mask(flatten(delta), sparsity)
    if mask is None:
        return dict(delta)
    parts = torch.split(mask, [p.numel() for p in delta.values()])
    return {n: p * kept.view_as(p) for (n, p), kept in zip(delta.items(), parts, strict=True)}


def clipped(delta: Params, clip: float | None) -> dict[str, Tensor]:
    """Return the update, scaled down to the L2 norm `clip` if it is longer.

    An update that is not finite becomes zero: it has no direction, and noise could not hide it.

    Example:
        >>> clipped({"w": torch.tensor([3.0, 4.0])}, 1.0)
        {'w': tensor([0.6000, 0.8000])}
    """
    if clip is None:
        return dict(delta)
    size = norm(delta)
    if not math.isfinite(size):
        return zeros_like(delta)
    return scale(delta, clip / size) if size > clip else dict(delta)


def with_noise(delta: Params, std: float, generator: torch.Generator) -> dict[str, Tensor]:
    """Return the update with Gaussian noise of standard deviation `std` in every entry."""
    if not std:
        return dict(delta)
    return {
        name: p
        + std
        * torch.randn(p.shape, generator=generator, dtype=p.dtype, device=generator.device).to(
            p.device
        )
        for name, p in delta.items()
    }
