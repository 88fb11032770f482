"""A check of conversion on the model, data and recipe of an experiment."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from unstale import models
from unstale.check import ConversionCheck, check_conversion
from unstale.check.clients import Examples, random_examples, random_tokens
from unstale.check.conversion import Progress, slow_clients
from unstale.data import Dataset
from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.load_data import load_data
from unstale.experiment.model import build_model, model_for
from unstale.experiment.prepare import inputs_of, taking_vectors
from unstale.experiment.threads import cpu_threads, threads_of
from unstale.inversion import InputSpec, embedded_inputs
from unstale.methods import Convert, Method
from unstale.sim import Scenario

# Where the latency of an experiment makes nobody late.
DEFAULT_STALENESS = 20
# How many clients the latency of an experiment is asked for, where there is no partition.
_ANY_CLIENTS = 1000


class _Clients(NamedTuple):
    """The clients of a check."""

    data: list[Examples] | None
    """What each holds; None for random data."""
    slow: tuple[int, ...] | None
    """Which of them are slow, by place; None for the first ones."""
    staleness: int
    """By how many versions updates are late in the experiment."""


def check_experiment(
    config: ExperimentConfig,
    *,
    method: str | None = None,
    seed: int | None = None,
    clients: int = 20,
    staleness: int | None = None,
    conversions: int = 10,
    random_inputs: InputSpec | bool = False,
    device: str = "cpu",
    data_root: str | None = None,
    progress: Progress | None = None,
) -> ConversionCheck:
    """Check conversion on the model, the data and the recipe of an experiment.

    Args:
        config: The experiment. Its cohort, availability, drift and protection are not used.
        method: The label of the `convert` method to check; by default the one labelled
            `convert`, else the first one, else the default settings.
        seed: Seeds partition, model and trial; the experiment's first seed if not given.
        clients: The number of its clients that take part, slow ones included.
        staleness: By how many versions updates are late; by default the median latency of
            the experiment's slow clients.
        conversions: How many to try.
        random_inputs: True replaces inputs by random ones and keeps their classes; an
            `InputSpec` makes random data without reading any.
        device: The torch device.
        data_root: The folder of data sets and weights; see `unstale.data.data_roots`.
        progress: Called after each version.

    Raises:
        ConfigError: If a setting is wrong.
        DataError: If the data is not there.
    """
    settings = method_to_check(config, method)
    seed = config.seeds[0] if seed is None else seed
    if isinstance(random_inputs, InputSpec):
        inputs, chosen = random_inputs, _without_data(config, random_inputs.classes, seed)
        model, _ = build_model(config, inputs.shape, inputs.classes, seed, data_root)
        if config.own_model is None and models.takes_tokens(config.model):
            inputs = embedded_inputs(model, inputs.shape, inputs.classes)
    else:
        dataset = load_data(config, data_root)
        model, _ = model_for(config, dataset, seed, data_root)
        model = taking_vectors(model, dataset)
        inputs = inputs_of(model, dataset)
        if random_inputs:
            dataset = replace(dataset, x_train=_random_inputs(dataset, inputs, seed))
        chosen = _of_scenario(Scenario(config.scenario, dataset, seed), clients, conversions)
    with cpu_threads(threads_of(config.threads)):
        found = check_conversion(
            model,
            local=config.local,
            inputs=inputs,
            data=chosen.data,
            clients=clients,
            slow=chosen.slow,
            staleness=chosen.staleness if staleness is None else staleness,
            conversions=conversions,
            method=settings,
            seed=seed,
            device=device,
            title=config.name,
            progress=progress,
        )
    return replace(found, random_data=bool(random_inputs))


def _random_inputs(dataset: Dataset, inputs: InputSpec, seed: int) -> Tensor:
    """Return random inputs of the same classes: token ids for text."""
    if dataset.vocabulary is None:
        return random_examples(inputs, dataset.y_train, seed)[0]
    words, shape = len(dataset.vocabulary), dataset.input_shape
    return random_tokens(words, shape, dataset.y_train, dataset.num_classes, seed)


def method_to_check(config: ExperimentConfig, label: str | None) -> Method | None:
    """Return the `convert` method of that label; without one the first, None if there is none."""
    found = {m.label: m.build() for m in config.methods}
    converting = {k: m for k, m in found.items() if isinstance(m.compensator, Convert)}
    if label is None:
        return converting.get("convert", next(iter(converting.values()), None))
    if label not in found:
        raise UnknownNameError("The method to check", label, found)
    if label not in converting:
        raise ConfigError(
            f"The method to check should be a `convert`. Found '{label}', which is "
            f"'{found[label].name}'. Choose one of: {', '.join(converting) or '(none)'}."
        )
    return converting[label]


def _of_scenario(scenario: Scenario, clients: int, conversions: int) -> _Clients:
    """Return the data of some clients of a scenario, with its share of slow ones."""
    late = [c for c in scenario.slow if scenario.latency.typical(c) > 0]
    fast = [c for c in range(scenario.num_clients) if c not in late]
    wanted = slow_clients(conversions)
    share = round(clients * len(late) / scenario.num_clients)
    slow = late[: max(wanted, share)]
    members = sorted([*slow, *fast[: max(1, clients - len(slow))]])
    held = [scenario.examples(client, 0) for client in members]
    return _Clients(
        [(scenario.data.x_train[index], scenario.data.y_train[index]) for index in held],
        tuple(members.index(client) for client in slow[:wanted]) or None,
        _median([scenario.latency.typical(client) for client in late]),
    )


def _without_data(config: ExperimentConfig, classes: int, seed: int) -> _Clients:
    """Return the staleness that the experiment's latency gives, whatever clients hold."""
    count = getattr(config.scenario.partition, "clients", _ANY_CLIENTS)
    plan = config.scenario.latency.plan(np.ones((count, classes), dtype=np.int64), seed)
    late = [plan.typical(client) for client in plan.slow if plan.typical(client) > 0]
    return _Clients(None, None, _median(late))


def _median(latencies: Sequence[float]) -> int:
    return round(statistics.median(latencies)) if latencies else DEFAULT_STALENESS
