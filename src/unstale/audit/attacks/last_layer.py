r"""Labels from the last layer: what its gradient says of the classes that a client holds.

With cross-entropy the gradient of the last bias is the mean of p − y over samples, where p are
the predicted probabilities and y the labels. For one sample only its own class is negative. For
many, the shares of classes are $\bar y = \bar p - g$; the server knows g, and estimates p̄ by the
model's predictions on some probes. Over k steps the update is a sum of k gradients, along
which predictions change: p̄ is then the mean of those at both ends.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unstale.errors import ConfigError
from unstale.inversion.hard_labels import whole_counts
from unstale.params import Params, add
from unstale.training.local import LocalSpec


@dataclass(frozen=True, slots=True)
class LastLayer:
    """The names of the parameters that make a model's outputs."""

    module: str
    """The name of the layer."""
    weight: str
    """The name of its weights `[classes, features]`."""
    bias: str | None
    """The name of its bias `[classes]`, if it has one."""


def last_layer(model: nn.Module, classes: int) -> LastLayer | None:
    """Return the last linear layer with so many outputs; None if there is none.

    Example:
        >>> last_layer(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), 2)
        LastLayer(module='2', weight='2.weight', bias='2.bias')
    """
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == classes
    ]
    if not found:
        return None
    name, module = found[-1]
    prefix = f"{name}." if name else ""
    return LastLayer(name, f"{prefix}weight", f"{prefix}bias" if module.bias is not None else None)


def step_size(local: LocalSpec, num_examples: int) -> float | None:
    r"""Return what a constant gradient would be multiplied by in the whole local training.

    For SGD with momentum m and k steps: $\eta \sum_{j=1}^k \frac{1 - m^j}{1 - m}$. None for other
    optimizers, whose updates do not have the scale of gradients.

    Example:
        >>> step_size(LocalSpec(lr=0.1, steps=2, momentum=0.5), 10)
        0.25
    """
    if local.optimizer != "sgd":
        return None
    m, steps = local.momentum, local.num_steps(num_examples)
    return local.lr * sum((1 - m**j) / (1 - m) for j in range(1, steps + 1))


def single_label(model: nn.Module, delta: Params, classes: int) -> int:
    """Return the label of one sample from the update of one step, as iDLG does.

    The gradient is negative for the sample's class only, so its entry of the update is the
    largest. Without a bias it is the largest sum of a row of weights, as features are not negative
    after a ReLU.

    Example:
        >>> delta = {"weight": torch.zeros(3, 2), "bias": torch.tensor([-0.1, 0.3, -0.2])}
        >>> single_label(nn.Linear(2, 3), delta, 3)
        1
    """
    layer = _required(model, classes)
    evidence = delta[layer.weight].sum(1) if layer.bias is None else delta[layer.bias]
    return int(evidence.argmax())


def label_counts(
    model: nn.Module,
    base: Params,
    delta: Params,
    *,
    local: LocalSpec,
    num_examples: int,
    classes: int,
    probes: Tensor,
) -> Tensor:
    """Return how many samples of each class a client holds, estimated from its update.

    Args:
        model: The structure that clients train.
        base: The weights that the client started from.
        delta: Its update.
        local: Its recipe.
        num_examples: How many samples it trained on.
        classes: The number of classes.
        probes: Inputs that predictions are made on: noise, or a surrogate.

    Returns:
        Whole numbers `[classes]` that add up to `num_examples`.

    Raises:
        ConfigError: If the model does not end in a linear layer, or clients do not use SGD.

    Example:
        >>> model = nn.Linear(1, 2)
        >>> base = {"weight": torch.zeros(2, 1), "bias": torch.zeros(2)}
        >>> delta = {"weight": torch.zeros(2, 1), "bias": torch.tensor([0.025, -0.025])}
        >>> label_counts(model, base, delta, local=LocalSpec(lr=0.1), num_examples=4, classes=2,
        ...              probes=torch.zeros(3, 1)).tolist()
        [3, 1]
    """
    layer = _required(model, classes)
    size = step_size(local, num_examples)
    if size is None:
        raise ConfigError(
            "Class counts should be estimated from an update of SGD, whose size is known. "
            f"Found {local.optimizer}."
        )
    steps = local.num_steps(num_examples)
    ends = [base] if steps == 1 else [base, add(base, delta)]
    seen = [_outputs(model, weights, layer, probes) for weights in ends]
    predicted = torch.stack([p for p, _ in seen]).mean(0)
    if layer.bias is None:
        features = float(torch.stack([f for _, f in seen]).mean()) or 1.0
        gradient = -delta[layer.weight].sum(1) / (size * features)
    else:
        gradient = -delta[layer.bias] / size
    shares = (predicted - gradient).clamp_min(0)
    total = shares.sum()
    even = torch.full_like(shares, 1 / classes)
    return whole_counts(shares / total if total > 0 else even, num_examples)


def labels_of_counts(counts: Tensor, images: int) -> Tensor:
    """Return labels in these proportions, class by class `[images]`.

    Example:
        >>> labels_of_counts(torch.tensor([2, 0, 2]), 2).tolist()
        [0, 2]
    """
    wanted = whole_counts(counts.double() / counts.sum(), images)
    return torch.arange(len(counts), device=counts.device).repeat_interleave(wanted)


def label_overlap(found: Tensor, truth: Tensor) -> float:
    """Return the share of labels that are right, if each is counted once: Σ min(f, t) / Σ t.

    Example:
        >>> label_overlap(torch.tensor([3, 1]), torch.tensor([2, 2]))
        0.75
    """
    both = torch.minimum(found.double().cpu(), truth.double().cpu())
    return float(both.sum() / truth.double().sum())


def _required(model: nn.Module, classes: int) -> LastLayer:
    layer = last_layer(model, classes)
    if layer is None:
        raise ConfigError(
            f"Labels should be read from a last linear layer with {classes} outputs. "
            "The model has none."
        )
    return layer


@torch.no_grad()
def _outputs(
    model: nn.Module, weights: Params, layer: LastLayer, probes: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean probabilities, and the mean sum of the features of the last layer."""
    seen: list[Tensor] = []
    hook = model.get_submodule(layer.module).register_forward_pre_hook(
        lambda _, given: seen.append(given[0])
    )
    try:
        buffers = dict(model.named_buffers())
        outputs = functional_call(model, {**weights, **buffers}, (probes,))
    finally:
        hook.remove()
    return outputs.softmax(-1).mean(0), seen[0].flatten(1).sum(1).mean()
