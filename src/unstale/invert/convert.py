"""A stale update into the one that its client would send today."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unstale.invert.checks import check_requests, try_model
from unstale.invert.conversion import Conversion, Request, Sent
from unstale.invert.settings import Invert
from unstale.invert.solver import Result, solve
from unstale.invert.starts import start_of, warmed
from unstale.invert.surrogate import InputSpec, Surrogate
from unstale.invert.target import Target, size_fault, target_of
from unstale.invert.unroll import one_by_one, unroller
from unstale.local import LocalSpec
from unstale.params import Params
from unstale.seeding import generator
from unstale.trainable import trainable_names


@dataclass(slots=True, eq=False)
class _Job:
    """A request that passed its checks, ready for the solver."""

    index: int
    targets: list[Target]
    start: Surrogate
    local: LocalSpec
    warm: bool

    @property
    def kind(self) -> tuple[object, ...]:
        """Jobs of one kind can be solved at once."""
        return (len(self.targets), len(self.start), self.local, self.warm)


def convert(
    model: nn.Module,
    *,
    base: Params,
    current: Params,
    delta: Params,
    local: LocalSpec,
    inputs: InputSpec,
    num_examples: int,
    past: Sequence[Sent] = (),
    settings: Invert | None = None,
    seed: int = 0,
    warm: Surrogate | None = None,
) -> Conversion:
    """Estimate the update that a client would send if it had started from `current`.

    A surrogate `(x, y)` is found whose training from `base` changes the weights by
    `delta`; the estimate is what its training from `current` changes. Nothing given is
    changed, and a failure is a result with `ok` false, never an exception.

    Args:
        model: The structure that clients train; its own weights are not used.
        base: The weights that the client started from.
        current: The weights of today.
        delta: The stale update: what the client's training changed.
        local: The recipe that the client ran.
        inputs: What one input looks like.
        num_examples: How many examples the client trained on.
        past: Its earlier updates `(base, delta)`, the newest last; `settings.history`
            says how many are used.
        settings: How to fit; the default where not given.
        seed: Decides the noise of the start.
        warm: The surrogate of the client's last conversion, to be improved.

    Raises:
        ConfigError: If tensors, model and `inputs` do not belong together.
        ModelError: If the model cannot be trained faithfully.

    Example:
        >>> from unstale.local import local_update
        >>> model = nn.Linear(2, 2)
        >>> base, current = ({n: torch.zeros_like(p) + c for n, p in model.named_parameters()}
        ...                  for c in (0.0, 0.5))
        >>> local = LocalSpec(lr=0.1, epochs=3)
        >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
        >>> stale = local_update(model, base, x, y, local)
        >>> found = convert(model, base=base, current=current, delta=stale, local=local,
        ...                 inputs=InputSpec(shape=(2,), classes=2), num_examples=2,
        ...                 settings=Invert(sparsity=0))
        >>> found.ok, found.loss < 0.1
        (True, True)

    References:
        Wang and Gao, Tackling Intertwined Data and Device Heterogeneities in Federated
        Learning with Unlimited Staleness.
    """
    request = Request(base, delta, num_examples, past, warm, seed)
    return convert_many(
        model, [request], current=current, local=local, inputs=inputs, settings=settings
    )[0]


def convert_many(
    model: nn.Module,
    requests: Sequence[Request],
    *,
    current: Params,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Invert | None = None,
) -> list[Conversion]:
    """Convert the stale updates of several clients at once, each as `convert` would.

    Those with equally many samples and past updates are solved together, at most
    `settings.at_once` of them. Results do not depend on who else is converted,
    beyond rounding.
    """
    settings = settings or Invert()
    names = trainable_names(model)
    check_requests(model, requests, current)
    jobs: list[_Job] = []
    conversions: dict[int, Conversion] = {}
    for index, request in enumerate(requests):
        if fault := size_fault(request.delta, request.base):
            conversions[index] = _failed(request, f"the update is {fault}")
        else:
            jobs.append(_prepare(index, request, names, local, inputs, settings))
    if jobs:
        first = jobs[0]
        try_model(model, first.targets[0].base, first.start, first.local, inputs)
    for group in _groups(jobs, settings.at_once):
        began = time.perf_counter()
        results = solve(
            model,
            [job.targets for job in group],
            [job.start for job in group],
            local=group[0].local,
            inputs=inputs,
            settings=settings,
            warm=group[0].warm,
        )
        estimates = _estimate(model, current, results, group[0].local)
        seconds = (time.perf_counter() - began) / len(group)
        for job, result, estimate in zip(group, results, estimates, strict=True):
            conversions[job.index] = _conclude(
                requests[job.index], current, result, estimate, seconds
            )
    return [conversions[index] for index in range(len(requests))]


def _prepare(
    index: int,
    request: Request,
    names: Sequence[str],
    local: LocalSpec,
    inputs: InputSpec,
    settings: Invert,
) -> _Job:
    # Of the past only what can be fitted; the newest update is the last target.
    past = [sent for sent in request.past if size_fault(sent[1], sent[0]) is None]
    earlier = past[-(settings.history - 1) :] if settings.history > 1 else []
    sent = [*earlier, (request.base, request.delta)]
    rng = generator(request.seed, "invert", "start")
    samples = settings.num_samples(request.num_examples)
    start = start_of(settings.start)(inputs, samples, settings.noise, rng)
    warm = request.warm is not None and request.warm.fits(inputs)
    if request.warm is not None and warm:
        start = warmed(request.warm, start)
    return _Job(
        index,
        [target_of(base, delta, names, settings.sparsity) for base, delta in sent],
        start,
        settings.local_for(local, request.num_examples),
        warm,
    )


def _groups(jobs: Sequence[_Job], at_once: int) -> list[list[_Job]]:
    kinds: dict[tuple[object, ...], list[_Job]] = {}
    for job in jobs:
        kinds.setdefault(job.kind, []).append(job)
    return [same[i : i + at_once] for same in kinds.values() for i in range(0, len(same), at_once)]


def _estimate(
    model: nn.Module, current: Params, results: Sequence[Result], local: LocalSpec
) -> list[dict[str, Tensor]]:
    """Train every surrogate from today's weights."""
    names = trainable_names(model)
    count = len(results)
    like = current[names[0]]
    x = torch.stack([r.surrogate.x for r in results]).to(like)
    labels = torch.stack([r.surrogate.labels for r in results]).to(like)
    weights = {n: p.detach().expand(count, *p.shape) for n, p in current.items()}
    with torch.no_grad():
        try:
            vectors = unroller(model, local, count, x.shape[1], like.device)(weights, x, labels)
        except RuntimeError:  # a layer that cannot be batched
            vectors = one_by_one(model, local)(weights, x, labels)
    estimates = []
    for vector in vectors:
        parts = dict(zip(names, vector.split([current[n].numel() for n in names]), strict=True))
        estimates.append(
            {
                n: parts[n].reshape(p.shape).clone() if n in parts else torch.zeros_like(p)
                for n, p in current.items()
            }
        )
    return estimates


def _conclude(
    request: Request,
    current: Params,
    result: Result,
    estimate: dict[str, Tensor],
    seconds: float,
) -> Conversion:
    reason = result.reason
    if not reason and (fault := size_fault(estimate, current)):
        reason = f"the estimate is {fault}"
    if reason:
        return replace(
            _failed(request, reason), loss=result.loss, losses=result.losses, seconds=seconds
        )
    return Conversion(estimate, result.surrogate, result.loss, result.losses, seconds, ok=True)


def _failed(request: Request, reason: str) -> Conversion:
    finite = all(bool(torch.isfinite(d).all()) for d in request.delta.values())
    kept = {
        n: d.detach().clone() if finite else torch.zeros_like(d) for n, d in request.delta.items()
    }
    return Conversion(kept, None, float("nan"), (), 0.0, ok=False, reason=reason)
