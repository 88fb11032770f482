"""One iteration of the solver for a batch of clients, in place.

Inputs and label logits of one client lie in one row, so that one Adam moves
both. All of the state is in fixed tensors and nothing here waits for the
device, so that a whole iteration can be recorded as a CUDA graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from unstale.inversion.objective import disparity_of, terms_of
from unstale.inversion.penalties import total_variation
from unstale.inversion.schedules import schedule_of
from unstale.inversion.settings import Inversion
from unstale.inversion.surrogate import InputSpec, Surrogate
from unstale.inversion.target import Target
from unstale.inversion.unroll import Unroll

_BETAS = (0.9, 0.999)
_EPS = 1e-8


@dataclass(slots=True, eq=False)
class Buffers:
    """What one solve works on; `clients` rows everywhere, in the order they were given."""

    weights: dict[str, Tensor]
    """The bases `[clients·updates, ...]` by name."""
    target: Tensor
    """The changes to reproduce `[clients, updates, entries]`."""
    mask: Tensor | None
    """The entries that count `[clients, updates, entries]`; None for all."""
    steps: Tensor
    """Adam's corrected step and second moment by iteration `[iterations, 2]`."""
    rows: Tensor
    """Inputs and label logits `[clients, samples·(values + classes)]`."""
    first: Tensor
    """Adam's mean of gradients, as `rows`."""
    second: Tensor
    """Adam's mean of squares, as `rows`."""
    best: Tensor
    """The rows of the least loss so far."""
    best_loss: Tensor
    """That loss `[clients]`."""
    rate: Tensor
    """What each client's steps are multiplied by `[clients]`; 0 for one that is done."""
    iteration: Tensor
    """How many iterations were done `[1]`."""
    losses: Tensor
    """The loss at each iteration `[iterations, clients]`."""

    def tensors(self) -> list[Tensor]:
        """Return all tensors in a fixed order."""
        found: list[Tensor] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, dict):
                found.extend(value.values())
            elif value is not None:
                found.append(value)
        return found

    def copy_from(self, other: "Buffers") -> None:
        """Take over another solve's values, in place."""
        for mine, theirs in zip(self.tensors(), other.tensors(), strict=True):
            mine.copy_(theirs)

    def set_rates(self, rates: Sequence[float], back: Sequence[bool]) -> None:
        """Set the clients' rates, and put those of `back` where their loss was least."""
        self.rate.copy_(torch.tensor(rates))
        if any(back):
            chosen = torch.tensor(back).to(self.rows.device).unsqueeze(1)
            self.rows.copy_(torch.where(chosen, self.best, self.rows))


def make_buffers(
    targets: Sequence[Sequence[Target]],
    starts: Sequence[Surrogate],
    settings: Inversion,
    iterations: int,
    warm: bool,
) -> Buffers:
    """Return the state before the first iteration; all clients have as many updates."""
    flat = [t for row in targets for t in row]
    like = flat[0].delta
    clients, updates = len(targets), len(targets[0])
    shape = (clients, updates, len(like))
    rows = torch.stack([torch.cat([s.x.reshape(-1), s.y_logits.reshape(-1)]) for s in starts])
    rows = rows.to(like)
    schedule, scale = schedule_of(settings.schedule), settings.warm_lr if warm else 1.0
    steps = [
        (scale * schedule(i, iterations) / (1 - _BETAS[0] ** (i + 1)), 1 - _BETAS[1] ** (i + 1))
        for i in range(iterations)
    ]
    masks = [t.mask for t in flat if t.mask is not None]
    return Buffers(
        weights={n: torch.stack([t.base[n].detach() for t in flat]) for n in flat[0].base},
        target=torch.stack([t.delta for t in flat]).view(shape),
        mask=torch.stack(masks).view(shape) if len(masks) == len(flat) else None,
        steps=torch.tensor(steps).to(like),
        rows=rows,
        first=torch.zeros_like(rows),
        second=torch.zeros_like(rows),
        best=rows.clone(),
        best_loss=torch.full((clients,), torch.inf).to(like),
        rate=torch.ones(clients).to(like),
        iteration=torch.zeros(1, dtype=torch.long, device=like.device),
        losses=torch.full((iterations, clients), torch.nan).to(like),
    )


class Descent:
    """The arithmetic of one iteration, for buffers of one shape."""

    def __init__(
        self, unroll: Unroll, inputs: InputSpec, settings: Inversion, samples: int, like: Tensor
    ) -> None:
        self.unroll = unroll
        self._inputs = inputs
        self._samples = samples
        self._disparity = disparity_of(settings.objective)
        self._signed = settings.optimizer == "signed"
        self._full = settings.shrink_steps_below * len(terms_of(settings.objective))
        bounded = settings.bounded
        unit = inputs.unit if bounded else 1.0
        self._tv = settings.tv / unit
        self._values = samples * torch.Size(inputs.shape).numel()
        classes = samples * inputs.classes

        def per_entry(value: float, label: float) -> Tensor:
            row = torch.cat([torch.full((self._values,), value), torch.full((classes,), label)])
            return row.to(like)

        self._lr = per_entry(settings.lr * unit, settings.label_lr)
        low = inputs.low if bounded and inputs.low is not None else -torch.inf
        high = inputs.high if bounded and inputs.high is not None else torch.inf
        self._low, self._high = per_entry(low, -torch.inf), per_entry(high, torch.inf)

    def constants(self) -> list[Tensor]:
        """Return the tensors that an iteration reads besides the buffers."""
        return [self._lr, self._low, self._high]

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs and label logits that lie in `rows` `[clients, ...]`."""
        x = rows[:, : self._values].reshape(len(rows), self._samples, *self._inputs.shape)
        return x, rows[:, self._values :].reshape(len(rows), self._samples, -1)

    def losses(self, buffers: Buffers, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return each client's disparity, and the same with its penalty."""
        clients, updates, _ = buffers.target.shape
        x, logits = self.split(rows)

        def for_each_update(values: Tensor) -> Tensor:
            shape = (clients, updates, *values.shape[1:])
            return values.unsqueeze(1).expand(shape).flatten(0, 1)

        deltas = self.unroll(
            buffers.weights, for_each_update(x), for_each_update(logits.softmax(-1))
        ).view(buffers.target.shape)
        fit = self._disparity(deltas, buffers.target, buffers.mask).mean(1)
        if not self._tv:
            return fit, fit
        return fit, fit + self._tv * total_variation(x, self._inputs.shape)

    def __call__(self, buffers: Buffers) -> None:
        """Do one iteration: losses, gradients, the best so far, one step of Adam."""
        b = buffers
        rows = b.rows.detach().requires_grad_()
        with torch.enable_grad():
            fit, total = self.losses(b, rows)
            (gradient,) = torch.autograd.grad(total.sum(), rows)
        with torch.no_grad():
            fit = fit.detach()
            b.losses.index_copy_(0, b.iteration, fit.unsqueeze(0))
            # A loss that is not finite ends a client; what it had before stays.
            b.rate.mul_(fit.isfinite())
            active = b.rate > 0
            better = active & (fit < b.best_loss)
            b.best_loss.copy_(torch.where(better, fit, b.best_loss))
            b.best.copy_(torch.where(better.unsqueeze(1), b.rows, b.best))
            if self._signed:
                gradient = gradient.sign()
            b.first.lerp_(gradient, 1 - _BETAS[0])
            b.second.lerp_(gradient.square(), 1 - _BETAS[1])
            step, correction = b.steps.index_select(0, b.iteration).unbind(1)
            move = b.first / ((b.second / correction).sqrt() + _EPS)
            rate = b.rate if not self._full else b.rate * (fit / self._full).clamp(max=1)
            moved = b.rows - (self._lr * step * rate.unsqueeze(1)) * move
            moved = moved.clamp(self._low, self._high)
            b.rows.copy_(torch.where(active.unsqueeze(1), moved, b.rows))
            b.iteration.add_(1)
