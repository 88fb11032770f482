"""Pretrained weights: loading them into a model, and parts that are not trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from unstale.errors import ConfigError, UnknownNameError
from unstale.files import sha256_of
from unstale.models.weight_files import read_weights

# Names that a message shows of each kind.
_SHOWN = 6
_STATISTICS = (".running_mean", ".running_var")
_COUNTER = "num_batches_tracked"


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """What `load_weights` took from a file, and what it did not."""

    file: str
    """The name of the file, without its folder."""
    sha256: str
    """The checksum of the file."""
    taken: tuple[str, ...]
    """The model's tensors that were set, by their names in the model."""
    initial: tuple[str, ...]
    """Those that keep their initial values: the head, if it does not fit."""
    unused: tuple[str, ...]
    """What else is in the file, by its names there: another head, BatchNorm's counters."""

    def __str__(self) -> str:
        """Return all of it in one or two sentences."""
        statistics = sum(name.endswith(_STATISTICS) for name in self.taken)
        fixed = f", {statistics} of them fixed statistics of BatchNorm" if statistics else ""
        kept = f" Initial values, from the seed: {', '.join(self.initial)}." if self.initial else ""
        return f"Weights of {self.file}: {len(self.taken)} tensors taken over{fixed}.{kept}"


def load_weights(model: nn.Module, path: str | Path, *, head: str | None = None) -> LoadedWeights:
    """Set the weights of a model from a file, and the statistics of its normalisation layers.

    Every tensor of the model should be in the file and every one of the file in the model, with
    the same name and shape. The one exception is the head, the last linear layer: if it is not in
    the file or has another shape there, as for other classes, it keeps its initial values.
    BatchNorm's counters (``num_batches_tracked``) are not used. Nothing is set if anything does
    not fit. A model may have a method ``own_name(published)`` that translates names.

    Args:
        model: The model; its weights are changed.
        path: A file of the formats of `unstale.models.read_weights`.
        head: The name of the module that may keep its initial values; by default the last
            ``nn.Linear``.

    Returns:
        What was taken over and what was not.

    Raises:
        ConfigError: If the file cannot be read or does not fit; lists what does not.

    Example:
        >>> import tempfile
        >>> from safetensors.torch import save_file
        >>> from unstale import models
        >>> trained = models.build("mlp", (3,), 10, hidden=[4])
        >>> ours = models.build("mlp", (3,), 2, hidden=[4], seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_file(trained.state_dict(), f"{folder}/mlp.safetensors")
        ...     print(models.load_weights(ours, f"{folder}/mlp.safetensors"))
        Weights of mlp.safetensors: 2 tensors taken over. Initial values, from the seed: \
3.weight, 3.bias.
    """
    path = Path(path).expanduser()
    published = read_weights(path)
    own = model.state_dict()
    names = _own_names(model, published, own)
    head = _last_linear(model) if head is None else _checked_head(model, head)
    at_head = {n for n in {*own, *names} if head and _within(n, head)}
    tensors = {name: published[there] for name, there in names.items()}
    head_fits = all(n in own and n in tensors and _fits(tensors[n], own[n]) for n in at_head)
    left_out = set() if head_fits else at_head
    _check_fit(path, model, _without(tensors, left_out), _without(own, left_out))
    with torch.no_grad():
        for name, value in own.items():
            if name not in left_out:
                value.copy_(tensors[name])
    taken = tuple(n for n in own if n not in left_out)
    used = {names[n] for n in taken}
    return LoadedWeights(
        file=path.name,
        sha256=sha256_of(path),
        taken=taken,
        initial=tuple(n for n in own if n in left_out),
        unused=tuple(n for n in published if n not in used),
    )


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Exclude parts of a model from training: their weights keep their values.

    Args:
        model: The model; ``requires_grad`` of its parameters is changed.
        parts: Names of modules or parameters, such as ``layer1`` or ``conv1.weight``.

    Raises:
        ConfigError: If there is no such part, or nothing to train would be left.

    Example:
        >>> from unstale import models
        >>> model = models.build("mlp", (3,), 2, hidden=[4])
        >>> models.freeze(model, ["1"])
        >>> [name for name, weight in model.named_parameters() if weight.requires_grad]
        ['3.weight', '3.bias']
    """
    parameters = dict(model.named_parameters())
    known = {n.partition(".")[0] for n in parameters}
    chosen: set[str] = set()
    for part in parts:
        found = {n for n in parameters if _within(n, part)}
        if not found:
            raise UnknownNameError("A part to freeze", part, known)
        chosen |= found
    if not any(p.requires_grad for n, p in parameters.items() if n not in chosen):
        raise ConfigError(
            f"A part of the model should be left to train. Found that {', '.join(parts)} are all "
            "of it. Freeze fewer parts."
        )
    for name in chosen:
        parameters[name].requires_grad_(False)


def _own_names(
    model: nn.Module, published: Mapping[str, Tensor], own: Mapping[str, Tensor]
) -> dict[str, str]:
    """Return the name in the file of each tensor by its name in the model, counters left out."""
    translate = getattr(model, "own_name", lambda name: name)
    names: dict[str, str] = {}
    for there in published:
        here = translate(there)
        if here in names:
            raise ConfigError(
                f"A weights file should have every tensor once. Found {names[here]} and {there}."
            )
        if here in own or here.rpartition(".")[2] != _COUNTER:
            names[here] = there
    return names


def _check_fit(
    path: Path, model: nn.Module, tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]
) -> None:
    """Raise ConfigError, with all that does not fit, unless the tensors are those of the model."""
    both = [n for n in own if n in tensors]
    wrong = [
        f"{n} {_form(tensors[n])} instead of {_form(own[n])}"
        for n in both
        if not _fits(tensors[n], own[n])
    ]
    bad = [n for n in both if not _sound(n, tensors[n])]
    foreign = [n for n in tensors if n not in own]
    faults = {
        "Not in the file": [n for n in own if n not in tensors],
        "Not in the model": foreign,
        "Of another shape or type": wrong,
        "Not finite, or a negative variance": bad,
    }
    if not any(faults.values()):
        return
    lines = "\n".join(f"- {what}: {_some(names)}" for what, names in faults.items() if names)
    hint = ""
    if any(n.endswith(_STATISTICS) for n in foreign) and any(
        isinstance(m, nn.GroupNorm) for m in model.modules()
    ):
        hint = (
            "\nThe file is of a network with BatchNorm, and the model has GroupNorm, which would "
            'compute something else with these weights. Build the model with norm = "frozen".'
        )
    raise ConfigError(
        f"The weights of {path.name} should be those of the model, the head apart. "
        f"Found:\n{lines}{hint}"
    )


def _fits(found: Tensor, wanted: Tensor) -> bool:
    return found.shape == wanted.shape and found.is_floating_point() == wanted.is_floating_point()


def _sound(name: str, found: Tensor) -> bool:
    negative = name.endswith("running_var") and bool((found < 0).any())
    return bool(found.isfinite().all()) and not negative


def _form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _without(tensors: Mapping[str, Tensor], names: set[str]) -> dict[str, Tensor]:
    return {n: t for n, t in tensors.items() if n not in names}


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _last_linear(model: nn.Module) -> str:
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return linear[-1] if linear else ""


def _checked_head(model: nn.Module, head: str) -> str:
    known = [name for name, _ in model.named_modules() if name]
    if head not in known:
        raise UnknownNameError("`head`", head, known)
    return head
