"""Conversion: the update that a client would send today, estimated from a stale one.

Its first half, the fit of a surrogate, is in `fit.py`: it needs nothing of today's weights
and may be computed ahead. Its second half is here: each surrogate is trained from them.
"""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unstale.inversion.arithmetic import arithmetic
from unstale.inversion.ensemble import members_of
from unstale.inversion.fit import fit_many
from unstale.inversion.request import Conversion, Fit, Request, Sent, check_requests
from unstale.inversion.settings import Inversion
from unstale.inversion.surrogate import InputSpec, Surrogate
from unstale.inversion.target import size_fault
from unstale.inversion.unroll import one_by_one, stacked, unroller
from unstale.params import Params, flatten
from unstale.training.local import LocalSpec
from unstale.training.token_models import embedding_names, surrogate_names


@dataclass(frozen=True, slots=True, eq=False)
class SurrogateTraining:
    """One surrogate to train, or an ensemble of them."""

    start: Params
    """The weights that the training starts from."""
    surrogate: Surrogate
    """The data."""
    local: LocalSpec
    """The recipe for the surrogate: see `Inversion.local_for`."""
    ensemble: int = 1
    """How many surrogates it is: the change is the mean of theirs."""


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
    settings: Inversion | None = None,
    seed: int = 0,
    warm: Surrogate | None = None,
) -> Conversion:
    """Estimate the update that a client would send if it had started from `current`.

    The inversion finds a surrogate `(x, y)` whose training from `base` changes the weights by
    `delta`. The estimate is the change by training it from `current`. No argument is changed,
    and a failed fit is a result with `ok` false, not an exception.

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
        >>> import torch
        >>> from unstale.training.local import local_update
        >>> model = nn.Linear(2, 2)
        >>> base, current = ({n: torch.zeros_like(p) + c for n, p in model.named_parameters()}
        ...                  for c in (0.0, 0.5))
        >>> local = LocalSpec(lr=0.1, epochs=3)
        >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
        >>> stale = local_update(model, base, x, y, local)
        >>> found = convert(model, base=base, current=current, delta=stale, local=local,
        ...                 inputs=InputSpec(shape=(2,), classes=2), num_examples=2,
        ...                 settings=Inversion(sparsity=0))
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
    settings: Inversion | None = None,
) -> list[Conversion]:
    """Convert the stale updates of several clients at once, each as `convert` would.

    Requests with equally many samples and past updates are solved together, at most
    `settings.at_once` of them. Other requests affect a result by rounding only.
    """
    settings = settings or Inversion()
    check_requests(model, requests, current)
    fits = fit_many(model, requests, local=local, inputs=inputs, settings=settings)
    return estimate_many(model, requests, fits, current=current, local=local, settings=settings)


def estimate_many(
    model: nn.Module,
    requests: Sequence[Request],
    fits: Sequence[Fit],
    *,
    current: Params,
    local: LocalSpec,
    settings: Inversion,
) -> list[Conversion]:
    """Estimate each fresh update by training its surrogate from today's weights.

    Where there is no surrogate, or the estimate is absurd, the update is kept as it came and
    `Conversion.ok` is false.
    """
    return estimate_with(
        model, requests, fits, (), current=current, local=local, settings=settings
    )[0]


def estimate_with(
    model: nn.Module,
    requests: Sequence[Request],
    fits: Sequence[Fit],
    others: Sequence[SurrogateTraining],
    *,
    current: Params,
    local: LocalSpec,
    settings: Inversion,
) -> tuple[list[Conversion], list[dict[str, Tensor]]]:
    """Estimate fresh updates as `estimate_many`, and train other surrogates in the same batches.

    Returns:
        The conversions, in the order of `requests`, and the change by each of `others`.
    """
    began = time.perf_counter()
    found = {i: _failed(requests[i], fit, fit.reason) for i, fit in enumerate(fits) if not fit.ok}
    fitted = [(i, fit.surrogate) for i, fit in enumerate(fits) if fit.surrogate is not None]
    recipes = [settings.local_for(local, requests[i].num_examples) for i, _ in fitted]
    pairs = list(zip(fitted, recipes, strict=True))
    many = settings.ensemble
    today = [SurrogateTraining(current, s, recipe, many) for (_, s), recipe in pairs]
    then = [SurrogateTraining(requests[i].base, s, recipe, many) for (i, s), recipe in pairs]
    batches = [list(others), today, then if settings.residual else []]
    device = next(iter(current.values())).device
    with arithmetic(device, settings.precision):
        aside, estimates, explained = _train_batches(model, batches, device, settings.at_once)
    if settings.residual:
        estimates = [
            with_residual(estimate, part, requests[i].delta)
            for estimate, part, (i, _) in zip(estimates, explained, fitted, strict=True)
        ]
    else:
        estimates = [
            with_stale_embedding(model, estimate, requests[i].delta)
            for estimate, (i, _) in zip(estimates, fitted, strict=True)
        ]
    seconds = (time.perf_counter() - began) / max(sum(map(len, batches)), 1)
    parts = explained if settings.residual else [None] * len(fitted)
    for (i, _), estimate, part in zip(fitted, estimates, parts, strict=True):
        fit = replace(fits[i], seconds=fits[i].seconds + seconds)
        found[i] = _concluded(requests[i], fit, estimate, part, current)
    return [found[i] for i in range(len(requests))], aside


def _train_batches(
    model: nn.Module,
    batches: Sequence[Sequence[SurrogateTraining]],
    device: torch.device,
    at_once: int,
) -> list[list[dict[str, Tensor]]]:
    """Return what each training of each batch changes.

    A GPU trains all batches as one, which takes no longer than one of them. On a CPU that saves
    nothing, and trained apart no batch changes the rounding of another.
    """
    if device.type == "cpu":
        return [train_surrogates(model, batch, at_once) for batch in batches]
    changes = train_surrogates(model, [each for batch in batches for each in batch], at_once)
    ends = list(itertools.accumulate(map(len, batches), initial=0))
    return [changes[first:last] for first, last in itertools.pairwise(ends)]


def train_surrogates(
    model: nn.Module, trainings: Sequence[SurrogateTraining], at_once: int
) -> list[dict[str, Tensor]]:
    """Return what each training changes, for an ensemble the mean over its members.

    Surrogates of equal size with the same recipe are trained together, at most `at_once`.
    """
    members = [members_of(training.surrogate, training.ensemble) for training in trainings]
    rows = [
        replace(training, surrogate=member, ensemble=1)
        for training, each in zip(trainings, members, strict=True)
        for member in each
    ]
    changes = iter(_train_each(model, rows, at_once))
    return [_mean_change([next(changes) for _ in each]) for each in members]


def _mean_change(changes: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    if len(changes) == 1:
        return changes[0]
    return {name: torch.stack([c[name] for c in changes]).mean(0) for name in changes[0]}


def _train_each(
    model: nn.Module, trainings: Sequence[SurrogateTraining], at_once: int
) -> list[dict[str, Tensor]]:
    changes: dict[int, dict[str, Tensor]] = {}
    kinds: dict[tuple[LocalSpec, int], list[int]] = {}
    for i, training in enumerate(trainings):
        kinds.setdefault((training.local, len(training.surrogate)), []).append(i)
    for (recipe, _), members in kinds.items():
        for first in range(0, len(members), at_once):
            group = members[first : first + at_once]
            starts = [trainings[i].start for i in group]
            surrogates = [trainings[i].surrogate for i in group]
            found = _trained(model, starts, surrogates, recipe)
            changes |= dict(zip(group, found, strict=True))
    return [changes[i] for i in range(len(trainings))]


def with_residual(estimate: Params, fitted: Params, delta: Params) -> dict[str, Tensor]:
    r"""Return the estimate plus the unexplained part of the update, scaled by β.

    $$ \hat\Delta = U(w_t) + \beta\,(\Delta - U(w_0)), \qquad
       \beta = \frac{\langle U(w_t), U(w_0)\rangle}{\lVert U(w_0)\rVert^2} \in [0, 1] $$

    where U(w) is the change by training the surrogate from w, w_0 the client's base and w_t
    today's weights. β is the share of the explained part that is left at w_t: 1 without
    staleness, so that the update then comes out as it came, and 0 where nothing is left.

    Example:
        >>> one = {"w": torch.tensor([1.0, 0.0])}
        >>> with_residual(one, one, {"w": torch.tensor([1.0, 0.2])})["w"]
        tensor([1.0000, 0.2000])
    """
    a, b = flatten(estimate), flatten(fitted)
    size = b @ b
    share = ((a @ b) / size).clamp(0, 1) if size > 0 else torch.zeros_like(size)
    return {n: e + share * (delta[n].to(e) - fitted[n]) for n, e in estimate.items()}


def with_stale_embedding(model: nn.Module, estimate: Params, delta: Params) -> dict[str, Tensor]:
    """Return the estimate with the stale change of a token embedding, which no surrogate trains.

    `with_residual` does this too, scaled by its β: all of that change is unexplained.
    """
    stale = {name: delta[name].to(estimate[name]) for name in embedding_names(model)}
    return {**estimate, **stale}


def _trained(
    model: nn.Module, starts: Sequence[Params], surrogates: Sequence[Surrogate], local: LocalSpec
) -> list[dict[str, Tensor]]:
    """Return the change by training every surrogate from its start."""
    names = surrogate_names(model)
    count = len(starts)
    like = starts[0][names[0]]
    x = torch.stack([s.x for s in surrogates]).to(like)
    labels = torch.stack([s.labels for s in surrogates]).to(like)
    if all(start is starts[0] for start in starts):
        weights = {n: p.detach().expand(count, *p.shape) for n, p in starts[0].items()}
    else:
        weights = {n: torch.stack([s[n].detach() for s in starts]) for n in starts[0]}
    trainings = stacked(model, local, weights, x, labels)
    with torch.no_grad():
        try:
            vectors = unroller(model, local, x.shape, like.device)(trainings)
        except RuntimeError:  # a layer that cannot be batched
            vectors = one_by_one(model, local)(trainings)
    changes = []
    for vector, start in zip(vectors, starts, strict=True):
        parts = dict(zip(names, vector.split([start[n].numel() for n in names]), strict=True))
        changes.append(
            {
                n: parts[n].reshape(p.shape).clone() if n in parts else torch.zeros_like(p)
                for n, p in start.items()
            }
        )
    return changes


def _concluded(
    request: Request,
    fit: Fit,
    estimate: dict[str, Tensor],
    explained: dict[str, Tensor] | None,
    current: Params,
) -> Conversion:
    if fault := size_fault(estimate, current):
        return _failed(request, fit, f"the estimate is {fault}")
    return Conversion(
        estimate,
        fit.surrogate,
        fit.loss,
        fit.losses,
        fit.seconds,
        ok=True,
        warm=fit.warm,
        explained=explained,
    )


def _failed(request: Request, fit: Fit, reason: str) -> Conversion:
    finite = all(bool(torch.isfinite(d).all()) for d in request.delta.values())
    kept = {
        n: d.detach().clone() if finite else torch.zeros_like(d) for n, d in request.delta.items()
    }
    return Conversion(
        kept, None, fit.loss, fit.losses, fit.seconds, ok=False, reason=reason, warm=fit.warm
    )
