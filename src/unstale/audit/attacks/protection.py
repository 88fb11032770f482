"""Protection: what of an update is to be seen, after sparsification and noise."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.errors import ConfigError
from unstale.inversion.target import check_rate, top_mask
from unstale.params import Params, flatten


@dataclass(frozen=True, slots=True)
class Protection:
    """Top-K sparsification of a whole update, then Gaussian noise on what is kept.

    This is the paper's order. Whoever attacks knows which entries were kept.

    Example:
        >>> update = {"w": torch.tensor([1.0, -3.0, 2.0, -2.0])}
        >>> Protection(sparsity=0.5).apply(update, 1.0, torch.Generator())["w"]
        tensor([ 0., -3.,  2.,  0.])
    """

    sparsity: float = 0.0
    """Share of the entries, smallest in magnitude first, that are set to 0."""
    variance: float = 0.0
    """Variance of the noise, on the scale of the gradient; the paper's is 1e-3."""

    def __post_init__(self) -> None:
        check_rate(self.sparsity)
        if not 0 <= self.variance < float("inf"):
            raise ConfigError(
                f"Protection: `variance` should be at least 0 and finite. Found {self.variance!r}."
            )

    @property
    def name(self) -> str:
        """In words, such as `95 % + noise`."""
        parts = [f"{100 * self.sparsity:g} %"] if self.sparsity or not self.variance else []
        return " + ".join([*parts, *(["noise"] if self.variance else [])])

    def apply(
        self, delta: Params, step_size: float, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the update as it is seen.

        Args:
            delta: The update.
            step_size: What a gradient was multiplied by to make the update: its noise is, too.
            generator: Draws the noise, on the CPU.
        """
        vector = flatten(delta).detach()
        mask = top_mask(vector, self.sparsity)
        if self.variance:
            noise = torch.randn(vector.shape, generator=generator).to(vector)
            vector = vector + self.variance**0.5 * step_size * noise
        if mask is not None:
            vector = torch.where(mask, vector, 0)
        sizes = [d.numel() for d in delta.values()]
        parts = torch.split(vector, sizes)
        return {n: p.reshape(d.shape) for (n, d), p in zip(delta.items(), parts, strict=True)}
