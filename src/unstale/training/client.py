"""client_update: local training of models as they come, with BatchNorm and dropout.

`local_update` trains a model as a function of its weights, which is what a server needs that
repeats the training on surrogates. A client needs less: its layers may write running statistics
and draw random numbers. Statistics then travel beside the weights, under the names of their
buffers, and are averaged as FedAvg does or kept by the client (`LocalSpec.buffers`). All
randomness comes from the client's generator.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from unstale.errors import ModelError
from unstale.params import Params
from unstale.seeding import derive
from unstale.training.local import check_data, guarded_update
from unstale.training.model_checks import SideEffectGuard, tracks_statistics
from unstale.training.spec import LocalSpec


def statistics_of(model: nn.Module) -> dict[str, Tensor]:
    """Return copies of the running statistics that training changes, by name.

    These are the buffers of BatchNorm and its kind in training mode: means, variances, and the
    number of batches that they were taken over.

    Example:
        >>> sorted(statistics_of(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))))
        ['1.num_batches_tracked', '1.running_mean', '1.running_var']
        >>> statistics_of(nn.BatchNorm1d(2).eval())
        {}
    """
    return {
        f"{path}.{name}" if path else name: buffer.detach().clone()
        for path, module in model.named_modules()
        if tracks_statistics(module)
        for name, buffer in module.named_buffers(recurse=False)
    }


def without(params: Params, names: Iterable[str]) -> Params:
    """Return the tensors whose names are not among `names`; `params` itself if all stay."""
    left_out = frozenset(names)
    return {n: p for n, p in params.items() if n not in left_out} if left_out else params


def client_update(
    model: nn.Module,
    params: Params,
    x: Tensor,
    y: Tensor,
    spec: LocalSpec,
    generator: torch.Generator | None = None,
) -> dict[str, Tensor]:
    """Train as `local_update`, with layers that keep statistics or draw random numbers.

    For a model without such layers the numbers are those of `local_update`. Nothing can be
    differentiated through it.

    Args:
        model: Any module; its own weights and buffers are not changed.
        params: The weights to start from and, if they should be trained on, the running
            statistics, both by name. Statistics that are missing start as the model has them.
        x: Inputs `[examples, ...]`.
        y: Class indices `[examples]` or soft labels `[examples, classes]`.
        spec: The recipe.
        generator: Shuffles the batches; dropout draws from a stream derived from its seed.

    Returns:
        The change of everything in `params`.

    Raises:
        ModelError: If a buffer changes that is no running statistic, or if BatchNorm gets a batch
            of one sample.
    """
    check_data(x, y)
    statistics = statistics_of(model)
    carried = {name: params.get(name, value) for name, value in statistics.items()}
    weights = without(params, statistics)
    guard = SideEffectGuard(model, carried, random=True)
    seed = derive(0 if generator is None else generator.initial_seed(), "dropout")
    devices = [x.device] if x.is_cuda else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        try:
            delta = guarded_update(model, weights, x, y, spec, generator, guard, stateful=True)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise ModelError(
                "BatchNorm should get batches of at least 2 samples. Found one: of "
                f"{len(x)} examples in batches of {spec.batch_size or len(x)}, the last has 1. "
                "Choose another `batch_size`, give clients more samples, or replace BatchNorm: "
                "us.fix_model(model)."
            ) from error
    changed = {name: guard.buffers[name] - carried[name] for name in carried if name in params}
    return {name: {**delta, **changed}[name] for name in params}


def averaged_statistics(current: Params, sent: Sequence[tuple[Params, float]]) -> dict[str, Tensor]:
    """Return the mean of clients' running statistics; of whole numbers the largest.

    Values are averaged, not changes: a stale change added to today's variance could make it
    negative.

    Args:
        current: The statistics so far, which stay where nobody has sent any.
        sent: What each client has after its training, with its weight.

    Example:
        >>> one, two = {"var": torch.tensor([1.0])}, {"var": torch.tensor([4.0])}
        >>> averaged_statistics({"var": torch.tensor([9.0])}, [(one, 1.0), (two, 2.0)])["var"]
        tensor([3.])
    """
    counted = [(values, weight) for values, weight in sent if weight > 0]
    total = sum(weight for _, weight in counted)
    if not counted:
        return dict(current)
    found = {}
    for name, old in current.items():
        values = [values[name] for values, _ in counted]
        if not old.is_floating_point():
            found[name] = torch.stack(values).amax(0)
            continue
        mean = torch.zeros_like(old)
        for value, (_, weight) in zip(values, counted, strict=True):
            mean.add_(value, alpha=weight / total)
        if name.endswith("running_var"):  # a stranger may send anything
            mean.clamp_(min=0)
        found[name] = mean if bool(torch.isfinite(mean).all()) else old
    return found


def trained_statistics(base: Params, delta: Params, names: Iterable[str]) -> dict[str, Tensor]:
    """Return a client's statistics after its training: those of its base plus their change."""
    return {name: base[name] + delta[name] for name in names}
