"""fix_model: makes a model one that conversion can train on the server.

Conversion repeats a client's training on a surrogate, so the model has to be a function of its
weights and inputs (`unstale.training.model_checks`). `fix_model` replaces what is not: BatchNorm
by GroupNorm, dropout by nothing. `model_fixes` lists the same changes and makes none.
"""

import copy
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from unstale.errors import ConfigError, ModelError
from unstale.params import params_of
from unstale.training.model_checks import SideEffectGuard, model_faults, tracks_statistics

logger = logging.getLogger(__name__)

# torch's own layers: what a subclass does besides would be lost.
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
# How layers that drop at random name their rate: torchvision's StochasticDepth, timm's DropPath.
_DROPPING = {"StochasticDepth": "p", "DropPath": "drop_prob", "DropBlock2d": "drop_prob"}
# Fewer channels in a group say little of the layer; of one alone the output would be zero.
_LEAST_IN_GROUP = {nn.BatchNorm1d: 8}
_LEAST = 2


@dataclass(frozen=True, slots=True)
class ModelFix:
    """One change that `fix_model` makes."""

    path: str
    """Where: the layer's name in the model; empty for the model itself."""
    before: str
    """What was there."""
    after: str
    """What is there now."""

    def __str__(self) -> str:
        return f"`{self.path or 'model'}`: {self.before} → {self.after}"


def model_fixes(model: nn.Module, *, groups: int = 32) -> tuple[ModelFix, ...]:
    """Return what `fix_model` would change.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.5))
        >>> for fix in model_fixes(net):
        ...     print(fix)
        `1`: BatchNorm2d of 8 channels → GroupNorm of 4 groups, with its weights
        `2`: Dropout with p=0.5 → p=0
    """
    return tuple(fix for fix, _ in _planned(model, groups))


def fix_model(model: nn.Module, *, groups: int = 32, example: Tensor | None = None) -> nn.Module:
    """Return a copy of the model that conversion can train; log each change as a warning.

    BatchNorm in training mode becomes GroupNorm, with BatchNorm's scale and shift; its running
    statistics are dropped, so a pretrained model has to be trained on. (Put BatchNorm into eval
    mode instead to keep them: such layers are left alone.) Dropout and stochastic depth get the
    rate 0, also in recurrent and attention layers. InstanceNorm stops keeping statistics.
    Embeddings lose `max_norm` and sparse gradients. Names of weights, frozen parts and weights
    that are shared stay.

    Args:
        model: Any module; it is not changed.
        groups: Maximum number of groups of a GroupNorm. Each is the largest number that divides
            the channels and leaves 2 of them in a group, 8 in place of BatchNorm1d.
        example: A batch of inputs to try the result on. It finds what no type tells, such as
            `F.dropout` in a model's `forward`.

    Raises:
        ModelError: If something is left that cannot be fixed; lists all of it, and what to do.

    Example:
        >>> fixed = fix_model(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
        >>> type(fixed[1]).__name__, fixed[1].num_groups
        ('GroupNorm', 4)
    """
    fixed, fixes = fixed_copy(model, groups=groups, example=example)
    if fixes:
        listed = "\n".join(f"- {fix}" for fix in fixes)
        logger.warning("fix_model made these changes:\n%s", listed)
    return fixed


def fixed_copy(
    model: nn.Module, *, groups: int = 32, example: Tensor | None = None
) -> tuple[nn.Module, tuple[ModelFix, ...]]:
    """Do what `fix_model` does, and return the changes instead of logging them."""
    if type(groups) is not int or groups < 1:
        raise ConfigError(
            f"fix_model: `groups` should be a whole number of at least 1. Found {groups!r}."
        )
    tensors = [*model.named_parameters(), *model.named_buffers()]
    if lazy := [name for name, tensor in tensors if is_lazy(tensor)]:
        raise ModelError(
            f"The layers of a model should have their shapes. Found {', '.join(lazy[:5])} without "
            "one. Run one forward pass first."
        )
    root = nn.ModuleDict({"model": copy.deepcopy(model)})  # so that the model has a parent, too
    fixes = []
    for fix, change in _planned(root["model"], groups):
        fixes.append(fix)
        change(root)
    fixed = root["model"]
    _check(fixed, example)
    return fixed, tuple(fixes)


# Changes the model under the key `model` of a ModuleDict.
_Change = Callable[[nn.ModuleDict], None]


def _planned(model: nn.Module, groups: int) -> Iterator[tuple[ModelFix, _Change]]:
    """Yield each fix with what makes it."""
    for path, module in list(model.named_modules()):
        kind = type(module).__name__
        if tracks_statistics(module) and isinstance(module, _NormBase):
            yield from _norm_fix(path, module, groups)
        elif (rate := _rate_of(module)) is not None:
            name, value = rate
            before = f"{kind} with {name}={value:g}"
            yield ModelFix(path, before, f"{name}=0"), _setting(module, name, 0.0)
        elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
            if module.max_norm is not None:
                fix = ModelFix(path, f"{kind} with max_norm={module.max_norm:g}", "max_norm=None")
                yield fix, _setting(module, "max_norm", None)
            if module.sparse:
                fix = ModelFix(path, f"{kind} with sparse gradients", "sparse=False")
                yield fix, _setting(module, "sparse", value=False)


def _norm_fix(path: str, norm: _NormBase, groups: int) -> Iterator[tuple[ModelFix, _Change]]:
    kind, channels = type(norm).__name__, norm.num_features
    if isinstance(norm, _InstanceNorm):
        before = f"{kind} with running statistics"
        yield ModelFix(path, before, "without them"), _untracked(norm)
        return
    extra = _activation_of(norm)
    least = next((n for of, n in _LEAST_IN_GROUP.items() if isinstance(norm, of)), _LEAST)
    if (type(norm) not in _BATCH_NORMS and not extra) or channels < 2:
        return  # named as left over
    count = _groups_for(channels, groups, least)
    made: nn.Module = nn.GroupNorm(count, channels, eps=norm.eps, affine=norm.affine)
    if norm.affine:
        made.weight, made.bias = norm.weight, norm.bias
    after = f"GroupNorm of {count} group{'s' if count > 1 else ''}"
    after += ", with its weights" if norm.affine else ""
    if extra:
        made = nn.Sequential(made, *extra)
        after += ", then its activation"
    made.train(norm.training)
    yield ModelFix(path, f"{kind} of {channels} channels", after), _replacing(norm, made)


def _groups_for(channels: int, most: int, least: int) -> int:
    """Return the largest number of groups that divides the channels, with enough in each."""
    fitting = (n for n in range(min(most, channels), 0, -1) if channels % n == 0)
    return next((n for n in fitting if channels // n >= least), 1)


def _activation_of(norm: nn.Module) -> list[nn.Module]:
    """Return what timm's BatchNormAct2d does after normalising; empty for all other layers."""
    if type(norm).__name__ != "BatchNormAct2d":
        return []
    parts = [getattr(norm, name, None) for name in ("drop", "act")]
    return [part for part in parts if isinstance(part, nn.Module)]


def _rate_of(module: nn.Module) -> tuple[str, float] | None:
    """Return where a layer keeps the rate by which it drops, and the rate, if it is above 0."""
    name = _DROPPING.get(type(module).__name__)
    if isinstance(module, _DropoutNd):
        name = "p"
    elif isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        name = "dropout"
    value = getattr(module, name, None) if name else None
    fits = isinstance(value, int | float) and value > 0 and module.training
    return (str(name), float(value)) if fits and value is not None else None


def _setting(module: nn.Module, name: str, value: object) -> _Change:
    return lambda root: setattr(module, name, value)


def _untracked(norm: _NormBase) -> _Change:
    def change(root: nn.ModuleDict) -> None:
        norm.track_running_stats = False
        norm.running_mean = norm.running_var = norm.num_batches_tracked = None

    return change


def _replacing(old: nn.Module, new: nn.Module) -> _Change:
    """Return the change that puts a layer in the place of another, wherever that is used."""

    def change(root: nn.ModuleDict) -> None:
        for parent in list(root.modules()):
            for name, child in parent._modules.items():
                if child is old:
                    parent._modules[name] = new

    return change


def _check(model: nn.Module, example: Tensor | None) -> None:
    """Raise ModelError with everything that was not fixed."""
    left = []
    for path, module in model.named_modules():
        if tracks_statistics(module):
            kind, channels = type(module).__name__, getattr(module, "num_features", 0)
            why = (
                "has one channel, of which GroupNorm would leave nothing. Take it out"
                if channels == 1
                else "is a BatchNorm of its own kind, which may do more. Replace it by hand"
            )
            left.append(f"`{path or 'model'}` ({kind}) {why}, or put it into eval mode.")
    # Those of such layers are said above, with what to do.
    left += [fault for fault in model_faults(model) if "updates running statistics" not in fault]
    if not left and example is not None:
        guard = SideEffectGuard(model)
        try:
            with guard:
                functional_call(model, {**params_of(model), **guard.buffers}, (example,))
        except ModelError as error:
            left += [line[2:] for line in str(error).splitlines()[1:]]
    if left:
        listed = "\n".join(f"- {fault}" for fault in left)
        raise ModelError(f"fix_model cannot fix all of this model:\n{listed}")
