"""The solver: fits one surrogate to each of a batch of clients, within a budget.

It repeats `unstale.inversion.descent`, from a CUDA graph where there is one, looks at the
losses now and then, cuts the steps of clients on a plateau and stops those that are done.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import torch
from torch import nn

from unstale.inversion.arithmetic import arithmetic
from unstale.inversion.descent import Descent, SolverState, initial_state
from unstale.inversion.objective import terms_of
from unstale.inversion.settings import Inversion
from unstale.inversion.surrogate import InputSpec, Surrogate
from unstale.inversion.target import Target
from unstale.inversion.unroll import Unroll, one_by_one, pays_to_batch, unroller
from unstale.training.cuda_graphs import GraphCache
from unstale.training.local import LocalSpec

log = logging.getLogger(__name__)

# Without `patience` the losses are still fetched now and then, for the clock and for failures.
_LOOK_EVERY = 25
# The factor on a client's steps at each plateau.
_CUT = 0.3
GRAPHS = GraphCache(kept_per_model=16)


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What the solver found for one client."""

    surrogate: Surrogate
    """The best surrogate found; the start where every loss was not finite."""
    loss: float
    """Its disparity."""
    losses: tuple[float, ...]
    """The disparity at each iteration."""
    ok: bool
    """Whether the fit can be used."""
    reason: str = ""
    """Why not."""

    @property
    def iterations(self) -> int:
        """How many iterations were done for this client."""
        return len(self.losses)


def solve(
    model: nn.Module,
    targets: Sequence[Sequence[Target]],
    starts: Sequence[Surrogate],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
    warm: bool = False,
) -> list[Result]:
    """Fit one surrogate to each client's targets; all clients at once.

    Clients do not affect one another: each one stops by its own loss. A failure is a
    `Result` with a reason, not an exception.

    Args:
        model: The model that is trained.
        targets: For each client, its updates; each client has as many.
        starts: For each client, where its surrogate begins; each has as many samples.
        local: The recipe for surrogates (`Inversion.local_for`).
        inputs: What inputs look like.
        settings: How to fit.
        warm: Whether the starts are earlier results.
    """
    state = initial_state(
        model, targets, starts, local=local, inputs=inputs, settings=settings, warm=warm
    )
    seconds = settings.max_seconds
    deadline = math.inf if seconds is None else time.perf_counter() + seconds * len(starts)
    device = state.rows.device
    shape = (len(targets) * len(targets[0]), *starts[0].x.shape)
    descent = Descent(unroller(model, local, shape, device), inputs, settings, len(starts[0]))
    # The time allowed is no part of what is recorded, and may change every round.
    key = (local, inputs, replace(settings, max_seconds=None))
    counts = [0] * len(starts)
    failure = ""
    with arithmetic(device, settings.precision), ExitStack() as held:
        try:
            graph = held.enter_context(GRAPHS.borrow(model, key, descent, state))
            if graph is not None:
                state = graph.inputs
                counts = _run(graph.replay, state, settings, warm, deadline)
            else:
                if pays_to_batch(shape, device):
                    _ensure_works(descent, state, one_by_one(model, local))
                eager = state
                counts = _run(lambda: descent(eager), state, settings, warm, deadline)
        except RuntimeError as error:  # out of memory, or a layer without second derivatives
            said = str(error) or type(error).__name__
            failure = f"the solver failed: {said.splitlines()[0]}"
            log.warning("%s", failure)
        return _results(state, descent, counts, failure, settings)


def _run(
    advance: Callable[[], None],
    state: SolverState,
    settings: Inversion,
    warm: bool,
    deadline: float,
) -> list[int]:
    """Iterate until every client is done; return each client's iterations.

    A client on a plateau goes on from its best point with smaller steps; when those no
    longer help either, it is done. So is a warm one with a good fit, from `warm_min_iterations` on.
    """
    most, clients = state.losses.shape
    on_cpu = state.rows.device.type == "cpu"
    look = settings.patience or _LOOK_EVERY
    enough = settings.warm_min_iterations if warm else most
    good = settings.good_loss * len(terms_of(settings.objective))
    counts = [0] * clients
    cuts = [0] * clients
    rates = [1.0] * clients
    for i in range(1, most + 1):
        advance()
        at_look = i % look == 0 or i in (enough, most)
        late = (on_cpu or at_look) and time.perf_counter() > deadline
        if not (at_look or late):
            continue
        back = [False] * clients
        for c, curve in enumerate(state.losses[:i].T.tolist()):  # waits for the device
            if rates[c] == 0:
                continue
            broken = next((k for k, loss in enumerate(curve) if not math.isfinite(loss)), None)
            counts[c] = i if broken is None else broken + 1
            if broken is not None or (i >= enough and min(curve) <= good):
                rates[c] = 0.0
            elif i % look:
                continue  # plateaus are looked for over whole stretches
            elif settings.patience and _plateau(curve, settings):
                cuts[c] += 1
                back[c] = True
                rates[c] = _CUT ** cuts[c] if cuts[c] <= settings.max_lr_cuts else 0.0
        if late or not any(rates):
            break
        state.set_rates(rates, back)
    return counts


def _plateau(curve: list[float], settings: Inversion) -> bool:
    """Tell whether the best loss has hardly fallen over the last `patience` iterations."""
    before = curve[: -settings.patience]
    if not before:
        return False
    best = min(before)
    return best - min(curve) < settings.tolerance * best


def _ensure_works(descent: Descent, state: SolverState, plain: Unroll) -> None:
    """Go over to the plain form where the model has a layer that `vmap` refuses."""
    try:
        with torch.no_grad():
            descent.unroll(descent.trainings(state, state.rows))
    except RuntimeError as error:
        log.info("One client at a time, since not batched: %s", error)
        descent.unroll = plain


def _results(
    state: SolverState, descent: Descent, counts: list[int], failure: str, settings: Inversion
) -> list[Result]:
    x, logits = descent.split(state.best)
    curves = state.losses.T.tolist()
    best = state.best_loss.tolist()
    most = settings.max_loss * len(terms_of(settings.objective))
    results = []
    for c, count in enumerate(counts):
        reason = failure
        if not reason and not math.isfinite(best[c]):
            reason = "the loss was not finite"
        elif not reason and best[c] > most:
            reason = f"no fit: the loss stayed at {best[c]:.3g}, above {most:.3g}"
        # Copies, so that one client's surrogate does not hold the memory of all.
        surrogate = Surrogate(x[c].clone(), logits[c].clone())
        losses = tuple(curves[c][:count])
        results.append(Result(surrogate, best[c], losses, not reason, reason))
    return results
