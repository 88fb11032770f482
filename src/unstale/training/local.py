"""local_update: the one definition of client training.

A client trains the weights it was given on its data and sends the change. Simulated
clients run `local_update` as it is and the inversion differentiates through it, so both
train alike. Tests compare it with `torch.optim` in double precision.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unstale.errors import ConfigError
from unstale.params import Params, subtract
from unstale.training.losses import Loss, resolve_loss
from unstale.training.model_checks import SideEffectGuard, trainable_names
from unstale.training.optimizers import optimizer_of
from unstale.training.spec import LocalSpec

__all__ = ["GradientFn", "LocalSpec", "fast_layout", "local_update", "loss_gradient", "train"]

# (weights, x, y) of one batch -> the gradient of the loss by name
GradientFn = Callable[[Params, Tensor, Tensor], dict[str, Tensor]]


def local_update(
    model: nn.Module,
    params: Params,
    x: Tensor,
    y: Tensor,
    spec: LocalSpec,
    generator: torch.Generator | None = None,
) -> dict[str, Tensor]:
    """Train `params` on `(x, y)` by `spec` and return the change.

    The result is `trained - params`. Where `params`, `x` or soft `y` require a gradient it
    can be differentiated with respect to them; k steps then hold k autograd graphs in
    memory. Only the structure and the buffers of `model` are used: its own weights are
    neither read nor changed.

    Args:
        model: Any module that can be trained faithfully (`check_model` lists what cannot).
        params: The weights to start from, by name.
        x: Inputs `[examples, ...]`.
        y: Class indices `[examples]` or soft labels `[examples, classes]`.
        spec: The recipe.
        generator: Shuffles the batches; None takes the samples in order.

    Returns:
        The change by name; zero for parameters that do not require a gradient.

    Raises:
        ModelError: If the model cannot be trained faithfully; lists every fault.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> x, y = torch.eye(2), torch.tensor([0, 1])
        >>> start = {n: p.detach() for n, p in model.named_parameters()}
        >>> sorted(local_update(model, start, x, y, LocalSpec(lr=0.1, epochs=3)))
        ['bias', 'weight']
    """
    check_data(x, y)
    return guarded_update(model, params, x, y, spec, generator, SideEffectGuard(model))


def guarded_update(
    model: nn.Module,
    params: Params,
    x: Tensor,
    y: Tensor,
    spec: LocalSpec,
    generator: torch.Generator | None,
    guard: SideEffectGuard,
    *,
    stateful: bool = False,
) -> dict[str, Tensor]:
    """Train as `local_update`, with the buffers of a guard, which says what may change.

    Args:
        model: As in `local_update`.
        params: As in `local_update`.
        x: As in `local_update`.
        y: As in `local_update`.
        spec: As in `local_update`.
        generator: As in `local_update`.
        guard: Has the buffers, and watches the first step.
        stateful: Whether the model may have running statistics and dropout.
    """
    names = trainable_names(model, stateful=stateful)
    inputs = [x, y, *params.values()]
    keep_graph = torch.is_grad_enabled() and any(t.requires_grad for t in inputs)
    loss_fn = resolve_loss(spec.loss)

    def gradient(current: Params, xb: Tensor, yb: Tensor) -> dict[str, Tensor]:
        if not keep_graph:  # cut the history, so that memory stays that of one step
            current = {n: p.detach().requires_grad_(n in names) for n, p in current.items()}
        with guard:
            return loss_gradient(
                model, loss_fn, names, current, guard.buffers, xb, yb, create_graph=keep_graph
            )

    start = dict(params)
    if keep_graph:  # autograd.grad needs leaves of the graph, not constants
        start = {
            n: p if p.requires_grad or n not in names else p.detach().requires_grad_()
            for n, p in params.items()
        }
    trained = train(start, x, y, spec, gradient, names, spec.batches(len(x), generator))
    return subtract(trained, params)


def loss_gradient(
    model: nn.Module,
    loss_fn: Loss,
    names: tuple[str, ...],
    weights: Params,
    buffers: Params,
    x: Tensor,
    y: Tensor,
    *,
    create_graph: bool,
) -> dict[str, Tensor]:
    """Return the gradient of the loss on one batch, by name, with plain autograd.

    Args:
        model: The structure.
        loss_fn: The loss.
        names: The parameters whose gradients are wanted; they require a gradient.
        weights: All weights, by name.
        buffers: The model's buffers, by name.
        x: Inputs.
        y: Class indices or soft labels.
        create_graph: Whether the result can be differentiated.
    """
    laid_out = x.contiguous() if _normalises_constants(model, names, x) else fast_layout(x)
    with torch.enable_grad():
        loss = loss_fn(functional_call(model, {**weights, **buffers}, (laid_out,)), y)
    wanted = [weights[n] for n in names]
    grads = torch.autograd.grad(loss, wanted, create_graph=create_graph, allow_unused=True)
    return {
        n: torch.zeros_like(p) if g is None else g
        for n, p, g in zip(names, wanted, grads, strict=True)
    }


def train(
    params: Params,
    x: Tensor,
    y: Tensor,
    spec: LocalSpec,
    gradient: GradientFn,
    names: tuple[str, ...],
    batches: Iterator[Tensor | None],
) -> dict[str, Tensor]:
    """Run the recipe's steps with the given gradient function; return the trained weights.

    This is the one training loop, behind `local_update` and behind
    `unstale.training.vectorised`, where `params`, `x` and `y` have a leading dimension of
    clients and a batch's indices are `[clients, samples]`. All arithmetic here is
    elementwise, so it serves both.

    Args:
        params: The weights to start from; those not in `names` stay as they are.
        x: Inputs.
        y: Class indices or soft labels.
        spec: The recipe.
        gradient: Returns the gradient of the loss on one batch, by name.
        names: The parameters that are trained.
        batches: The sample indices of each step; None means all samples.
    """
    start = {n: params[n] for n in names}
    current = dict(params)
    optimizer = optimizer_of(spec.optimizer)
    memory: Mapping[str, Any] = {}
    for index in batches:
        if index is None:
            xb, yb = x, y
        else:
            index = index.to(x.device)
            if index.ndim == 2:  # one row of samples per client
                client = torch.arange(len(index), device=x.device).unsqueeze(1)
                xb, yb = x[client, index], y[client, index]
            else:
                xb, yb = x.index_select(0, index), y.index_select(0, index)
        grads = gradient(current, xb, yb)
        for n in names:
            if spec.prox:
                grads[n] = grads[n] + spec.prox * (current[n] - start[n])
            if spec.weight_decay:
                grads[n] = grads[n] + spec.weight_decay * current[n]
        moves, memory = optimizer(grads, memory, spec)
        current.update({n: current[n] + moves[n] for n in names})
    return current


def fast_layout(x: Tensor) -> Tensor:
    """Return images on a CPU in channels-last layout, which it convolves and pools fastest.

    Values and gradients are the same; LeNet trains about 1.4 times as fast.
    """
    if x.ndim == 4 and x.device.type == "cpu":
        # Not `contiguous`: with one channel it leaves the strides, and nothing is gained.
        return x.to(memory_format=torch.channels_last)
    return x


def _normalises_constants(model: nn.Module, names: tuple[str, ...], x: Tensor) -> bool:
    """Return whether a trained GroupNorm may get inputs that need no gradient.

    It does where it is the first layer, or where layers before it are frozen. On a CPU, PyTorch
    (2.13 at least) then writes that gradient to nowhere if the inputs are channels-last, which
    ends the process.
    """
    if x.requires_grad or x.ndim != 4 or x.device.type != "cpu":
        return False
    trained = frozenset(names)
    frozen = {n.rpartition(".")[0] for n, _ in model.named_parameters() if n not in trained}
    constant = True  # whether all layers so far, in the order of the model, are frozen
    for path, module in model.named_modules():
        if isinstance(module, nn.GroupNorm) and (constant or frozen):
            return True
        constant = constant and (path in frozen or not any(True for _ in module.parameters(False)))
    return False


def check_data(x: Tensor, y: Tensor) -> None:
    """Raise ConfigError unless inputs and labels belong together."""
    if len(x) == 0 or len(x) != len(y):
        raise ConfigError(
            "local_update: `x` and `y` should hold the same number of examples, at least one. "
            f"Found {len(x)} and {len(y)}."
        )
    if y.is_floating_point() and y.ndim < 2:
        raise ConfigError(
            "local_update: soft labels `y` should have the shape [examples, classes]. "
            f"Found {tuple(y.shape)}. Class indices should be integers."
        )
