"""`check_conversion`: will conversion work on this model, with this data and recipe?

It runs a trial with a few slow clients, and compares what conversion makes of their
updates with the updates that they would have sent without delay.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unstale.check.clients import Examples, clients_of
from unstale.check.result import ConversionCheck
from unstale.check.trial import Client, Trial, run_trial
from unstale.errors import ConfigError
from unstale.inversion import InputSpec, preset
from unstale.methods import Compensator, Convert, Method
from unstale.params import Params, params_of
from unstale.training.device import resolve_device
from unstale.training.local import LocalSpec, local_update
from unstale.training.token_models import TokenModel
from unstale.updates import Outcome, ServerView, State, Update

# How many updates each slow client sends, if there are enough slow clients.
ARRIVALS = 5

# (versions done, versions in all)
Progress = Callable[[int, int], None]


def check_conversion(
    model: nn.Module,
    *,
    local: LocalSpec,
    inputs: InputSpec,
    data: Examples | Sequence[Examples] | None = None,
    clients: int = 20,
    samples: int | None = None,
    slow: Sequence[int] | None = None,
    staleness: int = 20,
    conversions: int = 10,
    method: Method | Compensator | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
    title: str = "",
    progress: Progress | None = None,
) -> ConversionCheck:
    """Try some conversions on a model and say whether they help.

    All clients train the model without delay, and the slow ones' updates are converted some
    versions later, when their true updates are known. Every stale update is converted:
    `uniqueness`, `switching` and `budget.max_conversions` are left out.

    Args:
        model: The model that clients train, with its initial weights; it is not changed.
        local: The recipe that clients run.
        inputs: What one input looks like; for a model of token ids, what one embedded input
            does (`unstale.inversion.embedded_inputs`).
        data: The `(x, y)` of each client; or one `(x, y)`, which is split so that clients hold
            few classes each; or None for random data.
        clients: The number of clients to split data over. With fewer, the slow ones are a larger
            share of the average than they are in most federations.
        samples: The number of samples per client; see `unstale.check.clients.clients_of`.
        slow: The slow clients by index; the first ones where not given.
        staleness: By how many versions their updates are late.
        conversions: At least how many to try; slow clients send five updates each, or more if
            `slow` names too few.
        method: The settings to check, as `us.Convert(...)` or `us.method("convert", ...)`.
        seed: Seeds the split, the shuffles and the fits.
        device: Where to train and convert.
        title: What is checked, for the table.
        progress: Called after each version with how many are done, and how many there are.

    Raises:
        ConfigError: If data, model and `inputs` do not belong together, or a setting is wrong.
        ModelError: If the model cannot be trained faithfully.

    Example:
        >>> from torch import nn
        >>> found = check_conversion(
        ...     nn.Linear(6, 3), local=LocalSpec(lr=0.1), inputs=InputSpec((6,), 3, -2.0, 2.0)
        ... )
        >>> found.random_data, len(found.measured)
        (True, 10)
    """
    for name, value, least in (("conversions", conversions, 2), ("staleness", staleness, 1)):
        if type(value) is not int or value < least:
            raise ConfigError(f"check: `{name}` should be at least {least}. Found {value!r}.")
    settings = _settings(method)
    where = resolve_device(device)
    model = copy.deepcopy(model).to(where)
    start = params_of(model)
    tokens = model if isinstance(model, TokenModel) else None
    held = clients_of(
        data, inputs=inputs, clients=clients, samples=samples, seed=seed, tokens=tokens
    )
    late = _slow(slow, conversions, len(held))
    _try_model(model, start, local, inputs)
    like = next(iter(start.values()))
    trial = Trial(
        late,
        staleness,
        arrivals=-(-conversions // len(late)),
        seed=seed,
    )
    return ConversionCheck(
        measured=tuple(
            run_trial(
                model,
                [Client(_like(c.x, like), c.y.to(where, torch.int64)) for c in held],
                trial,
                {"convert": _Watched(settings, trial.versions, progress)},
                local=local,
                inputs=inputs,
                start=start,
            )
        ),
        staleness=staleness,
        clients=len(held),
        device=str(where),
        random_data=data is None,
        thorough=settings.inversion == preset("thorough"),
        title=title,
    )


def _like(x: Tensor, like: Tensor) -> Tensor:
    """Return inputs on the weights' device and in their precision; token ids stay integers."""
    return x.to(like) if x.is_floating_point() else x.to(like.device)


def slow_clients(conversions: int) -> int:
    """Return how many slow clients so many conversions take.

    Example:
        >>> slow_clients(10)
        2
    """
    return -(-conversions // ARRIVALS)


def _settings(method: Method | Compensator | None) -> Convert:
    """Return the settings to check, such that every stale update is converted."""
    found = method.compensator if isinstance(method, Method) else method
    if found is None:
        found = Convert()
    if not isinstance(found, Convert):
        raise ConfigError(
            'check: `method` should be us.Convert(...) or us.method("convert", ...). '
            f"Found {found!r}."
        )
    return replace(
        found,
        uniqueness=replace(found.uniqueness, enabled=False),
        switching=replace(found.switching, enabled=False),
        budget=replace(found.budget, max_conversions=None),
    )


def _slow(slow: Sequence[int] | None, conversions: int, clients: int) -> tuple[int, ...]:
    count = slow_clients(conversions)
    chosen = tuple(range(count)) if slow is None else tuple(slow)[:count]
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(clients)):
        raise ConfigError(
            f"check: `slow` should name different clients from 0 to {clients - 1}. "
            f"Found {list(chosen)}."
        )
    if len(chosen) >= clients:
        raise ConfigError(
            f"check: There should be more clients than the {len(chosen)} slow ones that "
            f"{conversions} conversions take. Found {clients}. Give more clients, or lower "
            "`conversions`."
        )
    return chosen


def _try_model(model: nn.Module, start: Params, local: LocalSpec, inputs: InputSpec) -> None:
    """Train one step as a check that model, recipe and inputs belong together."""
    like = next(iter(start.values()))
    x = torch.full((2, *inputs.shape), inputs.middle).to(like)
    y = torch.full((2, inputs.classes), 1 / inputs.classes).to(like)
    one_step = replace(local, epochs=None, steps=1, batch_size=None)
    try:
        local_update(model, start, x, y, one_step)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"check: The model should take inputs of the shape {inputs.shape} and give "
            f"{inputs.classes} classes. It failed with: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class _Watched:
    """A compensator that tells how far the trial is: it is applied once a version."""

    inner: Compensator
    versions: int
    progress: Progress | None

    @property
    def lookback(self) -> int:
        return self.inner.lookback

    def init(self) -> State:
        return self.inner.init()

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        outcome = self.inner.apply(updates, state, view)
        if self.progress is not None:
            self.progress(view.version + 1, self.versions)
        return outcome
