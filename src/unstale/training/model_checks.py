"""Which models can be trained faithfully as a function of their weights.

`local_update` sees a model as a pure function: weights and inputs in, outputs
out. A layer that also writes to buffers (BatchNorm in training mode) or draws
random numbers (dropout) is no such function, and a client's update would
silently mean something else. `check_model` finds what is known by its type
before training; `SideEffectGuard` catches the rest at the first step.
"""

from types import TracebackType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter

from unstale.errors import ModelError


def model_faults(model: nn.Module) -> list[str]:
    """Return every known reason why `model` cannot be trained faithfully."""
    faults: list[str] = []
    for path, module in model.named_modules():
        where = f"`{path or 'model'}` ({type(module).__name__})"
        if isinstance(module, _NormBase) and module.training and module.track_running_stats:
            faults.append(
                f"{where} updates running statistics while training, which no update carries. "
                "Use GroupNorm or LayerNorm, or put the layer into eval mode."
            )
        if isinstance(module, _DropoutNd) and module.training and module.p > 0:
            faults.append(
                f"{where} drops at random with p={module.p}, which the server cannot repeat. "
                "Set p=0, or put the layer into eval mode."
            )
        if (
            isinstance(module, nn.RNNBase | nn.MultiheadAttention)
            and module.training
            and float(getattr(module, "dropout", 0.0)) > 0
        ):
            faults.append(f"{where} has dropout={module.dropout}. Set it to 0.")
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            if module.max_norm is not None:
                faults.append(
                    f"{where} shortens its weights in the forward pass, by max_norm="
                    f"{module.max_norm}. Set it to None."
                )
            if module.sparse:
                faults.append(f"{where} has sparse gradients. Set sparse=False.")
    for name, p in model.named_parameters():
        if isinstance(p, UninitializedParameter):
            faults.append(f"Parameter `{name}` has no shape yet. Run one forward pass first.")
        elif not p.is_floating_point():
            faults.append(f"Parameter `{name}` should be real floating point. Found {p.dtype}.")
    if not any(p.requires_grad for p in model.parameters()):
        faults.append("The model has no parameter that requires a gradient.")
    return faults


def check_model(model: nn.Module) -> None:
    """Raise if `model` cannot be trained faithfully.

    Raises:
        ModelError: With every fault at once.

    Example:
        >>> check_model(nn.Linear(2, 2))
        >>> check_model(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
        Traceback (most recent call last):
        ...
        unstale.errors.ModelError: The model cannot be trained faithfully:
        - `1` (Dropout) drops at random with p=0.5, which the server cannot repeat. \
Set p=0, or put the layer into eval mode.
    """
    if faults := model_faults(model):
        lines = "\n".join(f"- {fault}" for fault in faults)
        raise ModelError(f"The model cannot be trained faithfully:\n{lines}")


def trainable_names(model: nn.Module) -> tuple[str, ...]:
    """Check the model and return the names of the parameters that are trained."""
    check_model(model)
    return tuple(name for name, p in model.named_parameters() if p.requires_grad)


class SideEffectGuard:
    """Watches a forward pass for what `check_model` cannot see from types.

    Used as a context around the forward pass. The first pass is compared with
    what was there before: a buffer that changed, or a global generator that
    moved on (a functional dropout), raises `ModelError`. Later passes are free.
    """

    def __init__(self, model: nn.Module) -> None:
        # Copies: a model that does write to its buffers must not change under its owner.
        self.buffers: dict[str, Tensor] = {n: b.clone() for n, b in model.named_buffers()}
        self._versions = {n: b._version for n, b in self.buffers.items()}
        self._seen = False
        self._rng: list[Tensor] = []

    @staticmethod
    def _generators() -> list[Tensor]:
        states = [torch.get_rng_state()]
        if torch.cuda.is_available():
            states.append(torch.cuda.get_rng_state())
        return states

    def __enter__(self) -> None:
        if not self._seen:
            self._rng = self._generators()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._seen or kind is not None:
            return
        self._seen = True
        faults = [
            f"Buffer `{n}` changes during the forward pass, which no update carries."
            for n, b in self.buffers.items()
            if b._version != self._versions[n]
        ]
        if not all(torch.equal(a, b) for a, b in zip(self._rng, self._generators(), strict=True)):
            faults.append("The forward pass draws random numbers, which the server cannot repeat.")
        if faults:
            lines = "\n".join(f"- {fault}" for fault in faults)
            raise ModelError(f"The model cannot be trained faithfully:\n{lines}")
