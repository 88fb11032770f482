"""LocalSpec: the training recipe that clients run."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.errors import ConfigError
from unstale.training.losses import Loss, resolve_loss
from unstale.training.optimizers import optimizer_of

BUFFERS = ("averaged", "local")


@dataclass(frozen=True, slots=True)
class LocalSpec:
    """The training recipe that clients run: optimizer, length, batches and loss.

    Example:
        >>> LocalSpec(lr=0.01, momentum=0.5, epochs=5).num_steps(450)
        5
        >>> LocalSpec(epochs=2, batch_size=32).num_steps(100)
        8
    """

    lr: float = 0.01
    """Learning rate."""
    epochs: int | None = None
    """Passes over the client's data; 1 when neither this nor `steps` is given."""
    steps: int | None = None
    """Optimizer steps, given instead of `epochs`; passes are repeated until they are done."""
    batch_size: int | None = None
    """Samples per step; all of the client's when not given."""
    optimizer: str = "sgd"
    """`sgd` or `adam`, each as `torch.optim` defines it."""
    momentum: float = 0.0
    """SGD's momentum (no dampening, not Nesterov)."""
    weight_decay: float = 0.0
    """L2 penalty added to the gradient, as `torch.optim` does."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates."""
    eps: float = 1e-8
    """Adam's denominator constant."""
    prox: float = 0.0
    """FedProx's μ: adds μ/2·‖w − w_start‖² to the loss."""
    loss: str | Loss = "cross_entropy"
    """A loss by name, or a function of (outputs, targets) that returns a scalar mean."""
    buffers: str = "averaged"
    """What becomes of running statistics (BatchNorm's): `averaged`, they are sent along and
    averaged as FedAvg does; or `local`, each client keeps its own."""

    def __post_init__(self) -> None:
        def require(holds: bool, rule: str, found: object) -> None:
            if not holds:
                raise ConfigError(f"LocalSpec: {rule}. Found {found!r}.")

        require(
            self.epochs is None or self.steps is None,
            "give `epochs` or `steps`, not both",
            (self.epochs, self.steps),
        )
        for name in ("epochs", "steps", "batch_size"):
            value = getattr(self, name)
            require(
                value is None or (type(value) is int and value > 0),
                f"`{name}` should be a positive integer",
                value,
            )
        for name in ("lr", "momentum", "weight_decay", "prox", "eps"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            require(number and math.isfinite(value), f"`{name}` should be a finite number", value)
        require(self.lr > 0, "`lr` should be above 0", self.lr)
        require(0 <= self.momentum < 1, "`momentum` should be in [0, 1)", self.momentum)
        require(self.weight_decay >= 0, "`weight_decay` should be at least 0", self.weight_decay)
        require(self.prox >= 0, "`prox` should be at least 0", self.prox)
        require(self.eps > 0, "`eps` should be above 0", self.eps)
        require(
            len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas),
            "`betas` should be two numbers in [0, 1)",
            self.betas,
        )
        require(self.buffers in BUFFERS, f"`buffers` should be one of {BUFFERS}", self.buffers)
        optimizer_of(self.optimizer)  # an unknown name is an error here, not at the first client
        resolve_loss(self.loss)
        require(
            self.momentum == 0 or self.optimizer == "sgd",
            "`momentum` belongs to sgd; adam has `betas`",
            self.momentum,
        )

    def num_steps(self, num_examples: int) -> int:
        """Return the number of optimizer steps for a client with `num_examples` examples."""
        if self.steps is not None:
            return self.steps
        size = min(self.batch_size or num_examples, num_examples)
        return (self.epochs or 1) * -(-num_examples // size)

    def batches(
        self, num_examples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor | None]:
        """Yield the sample indices of each step; None means all samples.

        Every pass is shuffled anew by `generator`; without one the samples are taken
        in order. The last batch of a pass may be smaller.
        """
        left = self.num_steps(num_examples)
        if self.batch_size is None or self.batch_size >= num_examples:
            yield from (None for _ in range(left))
            return
        while left > 0:
            if generator is None:
                order = torch.arange(num_examples)
            else:
                order = torch.randperm(
                    num_examples, generator=generator, device=generator.device
                ).cpu()
            for start in range(0, num_examples, self.batch_size):
                if left == 0:
                    return
                yield order[start : start + self.batch_size]
                left -= 1
