"""How good a global model is: overall, per class, and on the affected classes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unstale.params import Params
from unstale.training.local import fast_layout
from unstale.training.losses import Loss

# Test samples per forward pass; large enough to be fast, small enough for any memory.
CHUNK = 2000


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures of one evaluation."""

    accuracy: float
    affected_accuracy: float | None
    """Over the test samples of the affected classes; None where there are none."""
    class_accuracy: tuple[float | None, ...]
    """None for a class without test samples."""
    loss: float | None
    """None where it is not finite."""


@torch.no_grad()
def evaluate(
    model: nn.Module,
    params: Params,
    x: Tensor,
    y: Tensor,
    num_classes: int,
    affected: Sequence[int],
    loss_fn: Loss,
    *,
    eval_mode: bool = False,
) -> Scores:
    """Return the scores of `params`, running statistics among them, on a test set.

    Args:
        model: The structure.
        params: The weights, and running statistics if there are any, by name.
        x: Inputs.
        y: Class indices.
        num_classes: Number of classes.
        affected: The classes whose accuracy is reported beside.
        loss_fn: The loss.
        eval_mode: Whether the model is put into eval mode, as BatchNorm and dropout need it.
            Without, it is left alone, since another thread may be training it.
    """
    values = {**dict(model.named_buffers()), **params}
    hits = torch.zeros(num_classes, dtype=torch.float64, device=y.device)
    total_loss = torch.zeros((), dtype=torch.float64, device=y.device)
    for start in range(0, len(y), CHUNK):
        xs, ys = x[start : start + CHUNK], y[start : start + CHUNK]
        with evaluating(model) if eval_mode else nullcontext():
            outputs = functional_call(model, values, (fast_layout(xs),))
        right = (outputs.argmax(-1) == ys).double()
        hits.index_add_(0, ys, right)
        total_loss += loss_fn(outputs, ys).double() * len(ys)
    counts = torch.bincount(y, minlength=num_classes).double().cpu()
    hits = hits.cpu()
    loss = float(total_loss) / len(y)
    chosen = list(affected)
    affected_count = float(counts[chosen].sum())
    return Scores(
        accuracy=float(hits.sum()) / len(y),
        affected_accuracy=float(hits[chosen].sum()) / affected_count if affected_count else None,
        class_accuracy=tuple(
            float(h) / float(n) if n else None for h, n in zip(hits, counts, strict=True)
        ),
        loss=loss if torch.isfinite(torch.tensor(loss)) else None,
    )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into eval mode within this block, and each of its layers back after it."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
