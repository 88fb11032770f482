"""A trial: compensators run on late updates whose truth is known, all on the same path.

Clients train every version of a model without delay, and the mean of their updates makes
the next one. Beside this, each compensator is given what a server would see if some clients
were late: the fresh updates of the others, and the late clients' updates of τ versions ago.
What it returns is compared with the late clients' true updates of that version. The path
does not depend on any compensator, so that all are judged on the same updates.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from unstale.check.errors import Errors, errors_of
from unstale.errors import ConfigError
from unstale.inversion import InputSpec
from unstale.inversion.recipe import surrogate_recipe
from unstale.methods import Compensator
from unstale.notes import Note
from unstale.params import Params, add, clone, weighted_mean
from unstale.seeding import generator
from unstale.sim.training import Work, train_cohort
from unstale.training.local import LocalSpec
from unstale.updates import ServerView, State, TrainingTools, Update


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """One client's data."""

    x: Tensor
    """Inputs `[samples, ...]`."""
    y: Tensor
    """Class indices `[samples]`."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried: who is late, by how much, and when their updates arrive.

    Example:
        >>> Trial(slow=(0, 1), staleness=20).versions
        56
    """

    slow: tuple[int, ...]
    """The late clients, by index."""
    staleness: int
    """τ: by how many versions their updates are late."""
    begin: int = 10
    """The version that each late client's first update is trained from."""
    arrivals: int = 6
    """The number of updates that each of them sends."""
    every: int = 5
    """The number of versions between two of them."""
    fresh: int | None = 10
    """The number of other clients whose fresh updates arrive in each version, in turn; None for
    all of them."""
    seed: int = 0
    """Seeds the shuffles of the clients and the compensators."""

    def __post_init__(self) -> None:
        for name in ("staleness", "arrivals", "every"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"Trial: `{name}` should be at least 1. Found {getattr(self, name)!r}."
                )

    @property
    def versions(self) -> int:
        """The number of versions that are trained."""
        return self.begin + (self.arrivals - 1) * self.every + self.staleness + 1

    def sent_from(self, version: int) -> bool:
        """Return whether late clients send an update that is trained from this version."""
        since, odd = divmod(version - self.begin, self.every)
        return odd == 0 and 0 <= since < self.arrivals


@dataclass(frozen=True, slots=True)
class Measured:
    """One late update, as it came and as a compensator would use it, against the truth."""

    label: str
    """The compensator."""
    client: int
    arrival: int
    """Which of the client's updates it is, from 0."""
    stale: Errors
    """The distances of the update as it came."""
    used: Errors
    """The distances of what the compensator returned."""
    kinds: tuple[str, ...]
    """The kinds of the notes about it, such as `converted` or `fallback`."""
    detail: Mapping[str, object] = field(default_factory=dict)
    """The details of those notes."""
    seconds: float = 0.0
    """The seconds of the round's compensation, divided by its late updates."""
    memory: int | None = None
    """The peak of GPU memory in the compensation; None on a CPU."""
    again: Errors | None = None
    """The distances of the client's own update, trained again from the same version with its
    batches drawn anew; None where the recipe draws none. No estimate can be expected to be
    nearer."""
    half: Errors | None = None
    """The distances of the update from half of the client's samples, always the same ones: what
    a server could do that knew so much of its data. None where the client has only one."""


def run_trial(
    model: nn.Module,
    clients: Sequence[Client],
    trial: Trial,
    compensators: Mapping[str, Compensator],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    start: Params,
) -> list[Measured]:
    """Run compensators on late updates and measure what they make of them.

    Args:
        model: The structure that clients train.
        clients: The data of all clients, on the device to train on.
        trial: Who is late and when.
        compensators: What to try, by label.
        local: The recipe that clients run.
        inputs: What one input looks like.
        start: The weights of version 0, on the same device.
    """
    states: dict[str, State] = {label: c.init() for label, c in compensators.items()}
    tools = TrainingTools(model, inputs)
    history: dict[int, Params] = {}
    sent: dict[int, list[Params]] = {}
    found: list[Measured] = []
    params = clone(start)
    for version in range(trial.versions):
        history[version] = params
        work = [
            Work(params, c.x, c.y, generator(trial.seed, "trial", i, version))
            for i, c in enumerate(clients)
        ]
        truth = train_cohort(model, work, local)
        if trial.sent_from(version):
            sent[version] = [truth[i] for i in trial.slow]
        base = version - trial.staleness
        late = [
            Update(str(client), base, delta, len(clients[client].x))
            for client, delta in zip(trial.slow, sent.pop(base, ()), strict=False)
        ]
        again = _again(model, trial, version, work, truth, local) if late else {}
        half = _half(model, trial, version, work, truth, local) if late else {}
        arrived = [*_fresh(trial, version, clients, truth), *late]
        for label, compensator in compensators.items():
            view = ServerView(
                version,
                params,
                history.get,
                local,
                # Of its own: what others draw should not change what it draws.
                generator(trial.seed, "server", version),
                kept_versions=frozenset(history),
                tools=tools,
            )
            with _Watch(params) as watch:
                outcome = compensator.apply(arrived, states[label], view)
            states[label] = outcome.state
            used = {u.key: u.delta for u in outcome.updates}
            for update in late:
                client = int(update.client_id)
                notes = [n for n in outcome.notes if (n.client_id, n.base_version) == update.key]
                found.append(
                    Measured(
                        label=label,
                        client=client,
                        arrival=(base - trial.begin) // trial.every,
                        stale=errors_of(update.delta, truth[client]),
                        used=errors_of(used.get(update.key, update.delta), truth[client]),
                        kinds=tuple(n.kind for n in notes),
                        detail=_details(notes),
                        seconds=watch.seconds / len(late),
                        memory=watch.memory,
                        again=again.get(client),
                        half=half.get(client),
                    )
                )
        params = add(params, weighted_mean(truth, [float(len(c.x)) for c in clients]))
        needed = {v for v in history if v >= version + 1 - trial.staleness}
        history = {v: history[v] for v in needed}
    return found


def _again(
    model: nn.Module,
    trial: Trial,
    version: int,
    work: Sequence[Work],
    truth: Sequence[Params],
    local: LocalSpec,
) -> dict[int, Errors]:
    """Return how far apart two trainings of a late client are that differ in their batches."""
    drawn = [
        i for i in trial.slow if local.batch_size is not None and local.batch_size < len(work[i].x)
    ]
    others = [
        replace(work[i], generator=generator(trial.seed, "trial again", i, version)) for i in drawn
    ]
    deltas = train_cohort(model, others, local)
    return {i: errors_of(delta, truth[i]) for i, delta in zip(drawn, deltas, strict=True)}


def _half(
    model: nn.Module,
    trial: Trial,
    version: int,
    work: Sequence[Work],
    truth: Sequence[Params],
    local: LocalSpec,
) -> dict[int, Errors]:
    """Return how far off each late client's update from half of its samples is.

    It has as many steps as the whole, in smaller batches, as a surrogate would have.
    """
    found = {}
    for i in trial.slow:
        own = work[i]
        if (size := len(own.x) // 2) > 0:
            order = torch.randperm(len(own.x), generator=generator(trial.seed, "half", i))
            kept = order[:size].to(own.x.device)
            rng = generator(trial.seed, "trial half", i, version)
            recipe = surrogate_recipe(local, len(own.x), size)
            part = Work(own.params, own.x[kept], own.y[kept], rng)
            (delta,) = train_cohort(model, [part], recipe)
            found[i] = errors_of(delta, truth[i])
    return found


def _fresh(
    trial: Trial, version: int, clients: Sequence[Client], truth: Sequence[Params]
) -> list[Update]:
    """Return the fresh updates that arrive in a version: of some fast clients, in turn."""
    fast = [i for i in range(len(clients)) if i not in trial.slow]
    count = len(fast) if trial.fresh is None else min(trial.fresh, len(fast))
    turn = [fast[(version * count + k) % len(fast)] for k in range(count)]
    return [Update(str(i), version, truth[i], len(clients[i].x)) for i in sorted(turn)]


def _details(notes: Sequence[Note]) -> dict[str, object]:
    return {
        key: value
        for note in reversed(notes)  # the first says what was done to the update itself
        for key, value in note.detail.items()
        if isinstance(value, int | float | str)
    }


class _Watch:
    """Measures the time and, on a GPU, the peak of the memory of what runs inside it."""

    def __init__(self, params: Params) -> None:
        self._device = next(iter(params.values())).device
        self.seconds = 0.0
        self.memory: int | None = None

    def __enter__(self) -> "_Watch":
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            self.memory = torch.cuda.max_memory_allocated(self._device)
        self.seconds = time.perf_counter() - self._began
