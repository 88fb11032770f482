"""Teacher: the client's own model, as the server knows it from a stale update.

It is the base version plus the update. Knowledge distillation calls the model that others
learn from the teacher.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unstale.errors import ConfigError
from unstale.inversion import InputSpec
from unstale.params import Params, add
from unstale.training.local import LocalSpec, fast_layout
from unstale.training.losses import Loss, resolve_loss
from unstale.training.model_checks import SideEffectGuard, trainable_names


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """A client's trained model, with fixed weights; only its inputs can be optimised."""

    model: nn.Module
    weights: Params
    guard: SideEffectGuard
    loss_fn: Loss

    @classmethod
    def of(cls, model: nn.Module, base: Params, delta: Params, local: LocalSpec) -> "Teacher":
        """Return the model that a client had at the end of its training.

        Args:
            model: The architecture; its own weights are not used.
            base: The weights that the client started from.
            delta: What its training changed.
            local: Its recipe, of which the loss is used.

        Raises:
            ModelError: If the model cannot be trained faithfully.
        """
        trainable_names(model)  # refuses models with dropout or running statistics
        weights = {n: p.detach() for n, p in add(base, delta).items()}
        return cls(model, weights, SideEffectGuard(model), resolve_loss(local.loss))

    @property
    def like(self) -> Tensor:
        """A tensor of the dtype and device that inputs should have."""
        return next(iter(self.weights.values()))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs `[samples, classes]` for inputs `[samples, ...]`."""
        with self.guard:
            values = {**self.weights, **self.guard.buffers}
            outputs: Tensor = functional_call(self.model, values, (fast_layout(x),))
        return outputs

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of the client's recipe for inputs and class indices."""
        return self.loss_fn(self(x), labels)

    def check(self, inputs: InputSpec) -> None:
        """Raise unless the model takes inputs of this shape and gives this many classes.

        Raises:
            ConfigError: If it does not.
        """
        x = torch.full((2, *inputs.shape), inputs.middle).to(self.like)
        try:
            with torch.no_grad():
                found = tuple(self(x).shape)
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                f"The model should take inputs of the shape {inputs.shape}. It failed with: {error}"
            ) from error
        if found != (2, inputs.classes):
            raise ConfigError(
                f"The model should give {inputs.classes} classes for each input. "
                f"Found outputs of the shape {found} for 2 inputs."
            )
