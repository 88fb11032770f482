"""One iteration of a fit for a batch of clients, in place.

A client's inputs and label logits lie in one row, so that one Adam moves both. All that
an iteration reads and writes is in `SolverState` and nothing here waits for the device,
so that an iteration can be recorded as a CUDA graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unstale.inversion.objective import disparity_of, entropy, terms_of, total_variation
from unstale.inversion.paths import path_of
from unstale.inversion.schedules import schedule_of
from unstale.inversion.settings import Inversion
from unstale.inversion.surrogate import InputSpec, Surrogate
from unstale.inversion.target import Target
from unstale.inversion.unroll import Unroll, buffers_of
from unstale.params import Params
from unstale.training.spec import LocalSpec
from unstale.training.vectorised import StackedClients, ordered_batches

_BETAS = (0.9, 0.999)
_EPS = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class SolverState:
    """All tensors of one solve; clients are in the order in which they were given.

    The first group stays as it is during a solve, the second changes in place.
    """

    weights: Params
    """The bases `[clients·updates, ...]`, by name."""
    buffers: Params
    """The model's buffers, by name."""
    batches: tuple[Tensor, ...]
    """The sample indices of each training step `[batch]`; empty where it takes all samples."""
    target: Tensor
    """The changes to reproduce `[clients, updates, entries]`."""
    mask: Tensor | None
    """The entries that count `[clients, updates, entries]`; None for all."""
    steps: Tensor
    """Adam's corrected step and second moment by iteration `[iterations, 2]`."""
    lr: Tensor
    """The learning rate of each entry of a row."""
    low: Tensor
    """The least value of each entry of a row."""
    high: Tensor
    """The greatest value of each entry of a row."""

    rows: Tensor
    """Inputs and label logits `[clients, samples·(values + classes)]`."""
    first: Tensor
    """Adam's mean of gradients, as `rows`."""
    second: Tensor
    """Adam's mean of squared gradients, as `rows`."""
    best: Tensor
    """The rows of the least loss so far."""
    best_loss: Tensor
    """That loss `[clients]`."""
    latest: Tensor
    """The latest loss of each update `[clients, updates]`; infinite before its first turn."""
    rate: Tensor
    """The factor on each client's steps `[clients]`; 0 for a client that is done."""
    iteration: Tensor
    """The number of iterations done `[1]`."""
    losses: Tensor
    """The loss at each iteration `[iterations, clients]`."""

    def set_rates(self, rates: Sequence[float], back: Sequence[bool]) -> None:
        """Set the clients' rates; those marked in `back` return to their best rows."""
        self.rate.copy_(torch.tensor(rates))
        if any(back):
            chosen = torch.tensor(back).to(self.rows.device).unsqueeze(1)
            self.rows.copy_(torch.where(chosen, self.best, self.rows))


def initial_state(
    model: nn.Module,
    targets: Sequence[Sequence[Target]],
    starts: Sequence[Surrogate],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
    warm: bool,
) -> SolverState:
    """Return the state before the first iteration; see `unstale.inversion.solver.solve`."""
    flat = [t for row in targets for t in row]
    like = flat[0].delta
    clients, updates, samples = len(targets), len(targets[0]), len(starts[0])
    shape = (clients, updates, len(like))
    rows = torch.stack([torch.cat([s.x.reshape(-1), s.y_logits.reshape(-1)]) for s in starts])
    rows = rows.to(like)
    iterations = settings.warm_iterations if warm else settings.iterations
    schedule, scale = schedule_of(settings.schedule), settings.warm_lr if warm else 1.0
    steps = [
        (scale * schedule(i, iterations) / (1 - _BETAS[0] ** (i + 1)), 1 - _BETAS[1] ** (i + 1))
        for i in range(iterations)
    ]
    masks = [t.mask for t in flat if t.mask is not None]
    values, classes = starts[0].x.numel(), samples * inputs.classes

    def per_entry(value: float, label: float) -> Tensor:
        return torch.cat([torch.full((values,), value), torch.full((classes,), label)]).to(like)

    low = inputs.low if settings.bounded and inputs.low is not None else -torch.inf
    high = inputs.high if settings.bounded and inputs.high is not None else torch.inf
    return SolverState(
        weights={n: torch.stack([t.base[n].detach() for t in flat]) for n in flat[0].base},
        buffers=buffers_of(model),
        batches=ordered_batches(local, samples, like.device),
        target=torch.stack([t.delta for t in flat]).view(shape),
        mask=torch.stack(masks).view(shape) if len(masks) == len(flat) else None,
        steps=torch.tensor(steps).to(like),
        lr=per_entry(settings.lr * _unit(inputs, settings), settings.label_lr),
        low=per_entry(low, -torch.inf),
        high=per_entry(high, torch.inf),
        rows=rows,
        first=torch.zeros_like(rows),
        second=torch.zeros_like(rows),
        best=rows.clone(),
        best_loss=torch.full((clients,), torch.inf).to(like),
        latest=torch.full((clients, updates), torch.inf).to(like),
        rate=torch.ones(clients).to(like),
        iteration=torch.zeros(1, dtype=torch.long, device=like.device),
        losses=torch.full((iterations, clients), torch.nan).to(like),
    )


def _unit(inputs: InputSpec, settings: Inversion) -> float:
    """Return what steps and total variation of inputs are measured by."""
    return inputs.unit if settings.bounded else 1.0


class Descent:
    """The arithmetic of one iteration, for states of one layout.

    Args:
        unroll: The differentiable training.
        inputs: What inputs look like.
        settings: How to fit.
        samples: The samples of a surrogate.
    """

    def __init__(
        self, unroll: Unroll, inputs: InputSpec, settings: Inversion, samples: int
    ) -> None:
        self.unroll = unroll
        self._inputs = inputs
        self._samples = samples
        self._disparity = disparity_of(settings.objective)
        steps = unroll.local.num_steps(samples)
        self._path = path_of(settings.path, unroll.local, steps)
        self._signed = settings.optimizer == "signed"
        self._full = settings.shrink_steps_below * len(terms_of(settings.objective))
        self._tv = settings.tv / _unit(inputs, settings)
        self._entropy = settings.entropy
        self._per_iteration = settings.updates_per_iteration
        self._values = samples * torch.Size(inputs.shape).numel()

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs and label logits that lie in `rows` `[clients, ...]`."""
        x = rows[:, : self._values].reshape(len(rows), self._samples, *self._inputs.shape)
        return x, rows[:, self._values :].reshape(len(rows), self._samples, -1)

    def in_turn(self, state: SolverState) -> Tensor | None:
        """Return which of the clients' updates this iteration fits; None for all of them."""
        updates = state.target.shape[1]
        if self._per_iteration >= updates:
            return None
        places = torch.arange(self._per_iteration, device=state.iteration.device)
        return (state.iteration * self._per_iteration + places) % updates

    def trainings(
        self, state: SolverState, rows: Tensor, turn: Tensor | None = None
    ) -> StackedClients:
        """Return the training of each client's row from the base of each of its updates."""
        clients, updates, _ = state.target.shape
        weights = state.weights
        if turn is not None:
            weights = {
                n: w.view(clients, updates, *w.shape[1:]).index_select(1, turn).flatten(0, 1)
                for n, w in weights.items()
            }
            updates = len(turn)
        x, logits = self.split(rows)

        def for_each_update(values: Tensor) -> Tensor:
            shape = (clients, updates, *values.shape[1:])
            return values.unsqueeze(1).expand(shape).flatten(0, 1)

        return StackedClients(
            weights,
            state.buffers,
            for_each_update(x),
            for_each_update(logits.softmax(-1)),
            state.batches,
        )

    def gradient(self, state: SolverState) -> tuple[Tensor, Tensor]:
        """Return each client's disparity, and the gradient of its row with the penalty's.

        The disparity is the mean over all updates. Those whose turn it is not count with what
        they had in their last turn, and not at all before their first.
        """
        turn = self.in_turn(state)
        target, mask = state.target, state.mask
        if turn is not None:
            target = target.index_select(1, turn)
            mask = None if mask is None else mask.index_select(1, turn)

        def fits_of(deltas: Tensor) -> Tensor:
            return self._disparity(deltas.view(target.shape), target, mask)

        rows = state.rows.detach().requires_grad_()
        with torch.enable_grad():
            trainings = self.trainings(state, rows, turn)
            fits, number = self._path(self.unroll, trainings, fits_of)
            number = number / target.shape[1]
            if self._tv:
                penalty = total_variation(self.split(rows)[0], self._inputs.shape)
                number = number + (self._tv * penalty).sum()
            if self._entropy:
                number = number + (self._entropy * entropy(self.split(rows)[1])).sum()
            (gradient,) = torch.autograd.grad(number, rows)
        fits = fits.detach()
        if turn is None:
            return fits.mean(1), gradient
        state.latest.index_copy_(1, turn, fits)
        known = ~state.latest.isposinf()
        return torch.where(known, state.latest, 0).sum(1) / known.sum(1), gradient

    def __call__(self, state: SolverState) -> None:
        """Do one iteration: losses, gradients, the best so far, one step of Adam."""
        s = state
        fit, gradient = self.gradient(s)
        with torch.no_grad():
            s.losses.index_copy_(0, s.iteration, fit.unsqueeze(0))
            # A loss that is not finite ends a client; what it had before stays.
            s.rate.mul_(fit.isfinite())
            active = s.rate > 0
            # Until every update had its turn a loss says too little to be compared.
            turns = -(-s.target.shape[1] // self._per_iteration)
            better = active & ((fit < s.best_loss) | (s.iteration < turns))
            s.best_loss.copy_(torch.where(better, fit, s.best_loss))
            s.best.copy_(torch.where(better.unsqueeze(1), s.rows, s.best))
            if self._signed:
                gradient = gradient.sign()
            s.first.lerp_(gradient, 1 - _BETAS[0])
            s.second.lerp_(gradient.square(), 1 - _BETAS[1])
            step, correction = s.steps.index_select(0, s.iteration).unbind(1)
            move = s.first / ((s.second / correction).sqrt() + _EPS)
            rate = s.rate if not self._full else s.rate * (fit / self._full).clamp(max=1)
            moved = s.rows - (s.lr * step * rate.unsqueeze(1)) * move
            moved = moved.clamp(s.low, s.high)
            s.rows.copy_(torch.where(active.unsqueeze(1), moved, s.rows))
            s.iteration.add_(1)
