"""Which models can be trained faithfully as a function of their weights.

`local_update` sees a model as a pure function: weights and inputs in, outputs
out. A layer that also writes to buffers (BatchNorm in training mode) or draws
random numbers (dropout) is no such function: clients can train it
(`unstale.training.client`), but a server that trains on surrogates cannot repeat
what they did. `check_model` finds what is known by its type before training;
`SideEffectGuard` catches the rest at the first step.
"""

from types import TracebackType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter

from unstale.errors import ModelError
from unstale.params import Params

# What a stateful layer has to become before a surrogate can be trained through it.
_FIX = "`us.fix_model(model)` does that."


def model_faults(model: nn.Module, *, stateful: bool = False) -> list[str]:
    """Return every known reason why `model` cannot be trained faithfully.

    Args:
        model: The model.
        stateful: Whether running statistics and dropout are no faults: clients can train with
            them (`unstale.training.client`), but a server cannot repeat it.
    """
    faults: list[str] = [] if stateful else _stateful_layers(model)
    for path, module in model.named_modules():
        where = _where(path, module)
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            if module.max_norm is not None:
                faults.append(
                    f"{where} shortens its weights in the forward pass, by max_norm="
                    f"{module.max_norm}. Set it to None: {_FIX}"
                )
            if module.sparse:
                faults.append(f"{where} has sparse gradients. Set sparse=False: {_FIX}")
    for name, p in model.named_parameters():
        if isinstance(p, UninitializedParameter):
            faults.append(f"Parameter `{name}` has no shape yet. Run one forward pass first.")
        elif not p.is_floating_point():
            faults.append(f"Parameter `{name}` should be real floating point. Found {p.dtype}.")
    if not any(p.requires_grad for p in model.parameters()):
        faults.append("The model has no parameter that requires a gradient.")
    return faults


def _stateful_layers(model: nn.Module) -> list[str]:
    """Return the faults of layers that write running statistics or draw random numbers."""
    faults: list[str] = []
    for path, module in model.named_modules():
        where = _where(path, module)
        if tracks_statistics(module):
            faults.append(
                f"{where} updates running statistics while training, which the server cannot "
                f"repeat. Use GroupNorm or LayerNorm ({_FIX[:-1]}), or put the layer into eval "
                "mode."
            )
        if isinstance(module, _DropoutNd) and module.training and module.p > 0:
            faults.append(
                f"{where} drops at random with p={module.p}, which the server cannot repeat. "
                f"Set p=0 ({_FIX[:-1]}), or put the layer into eval mode."
            )
        if (
            isinstance(module, nn.RNNBase | nn.MultiheadAttention)
            and module.training
            and float(getattr(module, "dropout", 0.0)) > 0
        ):
            faults.append(f"{where} has dropout={module.dropout}. Set it to 0: {_FIX}")
    return faults


def tracks_statistics(module: nn.Module) -> bool:
    """Return whether a layer updates running statistics while it trains, as BatchNorm does."""
    return isinstance(module, _NormBase) and module.training and module.track_running_stats


def _where(path: str, module: nn.Module) -> str:
    return f"`{path or 'model'}` ({type(module).__name__})"


def check_model(model: nn.Module, *, stateful: bool = False) -> None:
    """Raise if `model` cannot be trained faithfully.

    Args:
        model: The model.
        stateful: Whether it may have running statistics and dropout, as for methods that do not
            train the model on the server.

    Raises:
        ModelError: With every fault at once.

    Example:
        >>> check_model(nn.Linear(2, 2))
        >>> dropping = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
        >>> check_model(dropping, stateful=True)
        >>> check_model(dropping)
        Traceback (most recent call last):
        ...
        unstale.errors.ModelError: The model cannot be trained faithfully:
        - `1` (Dropout) drops at random with p=0.5, which the server cannot repeat. \
Set p=0 (`us.fix_model(model)` does that), or put the layer into eval mode.
    """
    if faults := model_faults(model, stateful=stateful):
        raise _unfaithful(faults)


def trainable_names(model: nn.Module, *, stateful: bool = False) -> tuple[str, ...]:
    """Check the model as `check_model` and return the names of the parameters that are trained."""
    check_model(model, stateful=stateful)
    return tuple(name for name, p in model.named_parameters() if p.requires_grad)


class SideEffectGuard:
    """Watches a forward pass for what `check_model` cannot see from types.

    Used as a context around the forward pass. The first pass is compared with
    what was there before: a buffer that changed, or a global generator that
    moved on (a functional dropout), raises `ModelError`. Later passes are free.

    Args:
        model: The model.
        carried: Buffers that may change, by name, with the values to begin with.
        random: Whether the pass may draw random numbers.
    """

    def __init__(
        self, model: nn.Module, carried: Params | None = None, *, random: bool = False
    ) -> None:
        # Copies: a model that does write to its buffers must not change under its owner.
        self._carried = carried or {}
        self.buffers: dict[str, Tensor] = {
            n: self._carried.get(n, b).detach().clone() for n, b in model.named_buffers()
        }
        self._versions = {n: b._version for n, b in self.buffers.items()}
        self._seen = False
        self._random = random
        self._rng: list[Tensor] = []

    @staticmethod
    def _generators() -> list[Tensor]:
        states = [torch.get_rng_state()]
        if torch.cuda.is_available():
            states.append(torch.cuda.get_rng_state())
        return states

    def __enter__(self) -> None:
        if not self._seen and not self._random:
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
            f"Buffer `{n}` changes during the forward pass, which no update carries. Keep it "
            "fixed while training."
            for n, b in self.buffers.items()
            if b._version != self._versions[n] and n not in self._carried
        ]
        now = [] if self._random else self._generators()
        if not all(torch.equal(a, b) for a, b in zip(self._rng, now, strict=True)):
            faults.append(
                "The forward pass draws random numbers, which the server cannot repeat. Take the "
                "dropout out of the model's `forward`."
            )
        if faults:
            raise _unfaithful(faults)


def _unfaithful(faults: list[str]) -> ModelError:
    lines = "\n".join(f"- {fault}" for fault in faults)
    return ModelError(f"The model cannot be trained faithfully:\n{lines}")
