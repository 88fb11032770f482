"""What the conversions of a run will cost, estimated before it begins.

How many late updates arrive follows from the scenario. A fit of two lengths is timed on data of a
slow client, which gives the seconds of an iteration. How many iterations a fit takes is known
within bounds only, so the estimate is a range.
"""

import copy
import dataclasses
import math
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from unstale.data import Dataset
from unstale.experiment.all_parts import Runner
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.prepare import inputs_of, taking_vectors
from unstale.experiment.progress import Silent
from unstale.inversion import InputSpec, Inversion, Request, fit_many
from unstale.inversion.surrogate import BORROWED, starts_of
from unstale.methods import Convert
from unstale.params import params_of
from unstale.sim import Scenario
from unstale.sim.late_updates import late_updates
from unstale.training.local import LocalSpec, local_update

WORTH_SAYING = 60.0
"""Nothing is said of conversions that may be done within so many seconds."""
# Iterations of the two fits that are timed. Short ones are repeated, and the best of each counts.
_SHORT, _LONG = 1, 3
_REPEATS, _ENOUGH_SECONDS = 5, 0.5


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost of all conversions of a run."""

    updates: int
    """How many late updates arrive in runs of methods that convert."""
    first: int
    """How many of them are a client's first ones, whose fits take longest."""
    seconds: tuple[float, float]
    """At least and at most, if fits end as early, or run as long, as their settings allow."""
    iteration: float
    """Seconds of one iteration, as timed."""

    @property
    def worth_saying(self) -> bool:
        """Whether somebody will have to wait for it."""
        return self.seconds[0] >= WORTH_SAYING

    def __str__(self) -> str:
        low, high = self.seconds
        return (
            f"Conversion is expected to take {span(low, high)}: {self.updates:,} late updates, "
            f"{self.first:,} of them first ones, {_short(self.iteration)} an iteration as timed "
            "just now. How many iterations a fit takes depends on the updates."
        )


def expectations(
    config: ExperimentConfig,
    scenarios: Mapping[int, Scenario],
    model: nn.Module,
    runner: Runner,
) -> tuple[str, ...]:
    """Return what should be said before a run begins: nothing of a run that is soon done."""
    if isinstance(runner.progress, Silent):
        return ()
    found = forecast(config, scenarios, model, device=runner.device, jobs=runner.jobs)
    if found is None or not found.worth_saying:
        return ()
    cores = os.cpu_count() or 1
    if runner.device.type != "cpu" or runner.threads * runner.jobs >= cores:
        return (str(found),)
    used = f"{runner.jobs} × {runner.threads}" if runner.jobs > 1 else str(runner.threads)
    return (
        str(found),
        f"CPU threads in use: {used} of {cores} cores. `unstale run --jobs` uses more for several "
        "methods and seeds and changes no number, `threads` more for each.",
    )


def forecast(
    config: ExperimentConfig,
    scenarios: Mapping[int, Scenario],
    model: nn.Module,
    *,
    device: torch.device,
    jobs: int = 1,
) -> Forecast | None:
    """Estimate what the conversions of an experiment will cost.

    Args:
        config: The experiment.
        scenarios: The scenario of each seed.
        model: Its model; not changed.
        device: Where it will run.
        jobs: How many methods and seeds run at the same time.

    Returns:
        The estimate; None if nothing is converted.
    """
    built = [method.build() for method in config.methods]
    converting = [m.compensator for m in built if isinstance(m.compensator, Convert) and m.delayed]
    counts = {seed: late_updates(scenario, config.rounds) for seed, scenario in scenarios.items()}
    late = sum((counted.total() for counted in counts.values()), 0)
    if not converting or not late:
        return None
    seed, counted = max(counts.items(), key=lambda item: item[1].total())
    client = max(counted, key=lambda c: int(scenarios[seed].histogram[c].sum()))
    dataset = scenarios[seed].data
    index = scenarios[seed].examples(client, 0)
    x, y = dataset.x_train[index].to(device), dataset.y_train[index].to(device)
    model = copy.deepcopy(taking_vectors(model, dataset)).to(device)
    base = params_of(model)
    delta = local_update(model, base, x, y, config.local)
    request = Request(base, delta, len(x))
    total, least, most = 0.0, 0.0, 0.0
    for convert in converting:
        each = _seconds_of_iteration(model, request, config.local, dataset, convert.inversion)
        total += each
        for scenario_seed, counted in counts.items():
            probes = min(convert.calibration.probes, len(scenarios[scenario_seed].fast))
            low, high = iterations(
                convert.inversion,
                counted,
                probes if convert.calibration.enabled else 0,
                convert.calibration.cost if convert.calibration.enabled else 0.0,
                warm=convert.warm_start,
            )
            least, most = least + low * each, most + high * each
    together = max(1, min(jobs, len(converting) * len(scenarios)))
    return Forecast(
        updates=late * len(converting),
        first=sum(len(counted) for counted in counts.values()) * len(converting),
        seconds=(least / together, most / together),
        iteration=total / len(converting),
    )


def iterations(
    settings: Inversion, counted: Counter[int], probes: int, share: float, *, warm: bool = True
) -> tuple[float, float]:
    """Return the fewest and the most iterations of the fits of one run.

    Args:
        settings: The settings of the inversion.
        counted: The late updates of each client.
        probes: How many fast clients have fits for calibration.
        share: Their later fits, as a share of the conversions.
        warm: Whether later fits of a client start from its last surrogate.

    Example:
        >>> iterations(Inversion(start="grey"), Counter({0: 1, 1: 3}), probes=0, share=0.0)
        (84.0, 364.0)
    """
    starts = sum(name != BORROWED for name in starts_of(settings.start))
    # A trial of several starts, then the chosen one for the rest.
    extra = (starts - 1) * min(settings.trial_iterations, settings.iterations) if starts > 1 else 0
    plateaus = settings.patience * (settings.max_lr_cuts + 1) or math.inf
    cold = extra + min(plateaus, settings.iterations), extra + settings.iterations
    later = min(plateaus, settings.warm_iterations), settings.warm_iterations
    if settings.good_loss > 0:
        later = min(later[0], settings.warm_min_iterations), later[1]
    if not warm:
        later = cold
    first, rest = len(counted) + probes, counted.total() - len(counted)
    return (
        float(len(counted) * cold[0] + rest * later[0]),
        float(first * cold[1] + rest * later[1] * (1 + share)),
    )


def span(low: float, high: float) -> str:
    """Return a range of times in words.

    Example:
        >>> span(20, 70), span(130, 620), span(100, 9000)
        ('20 to 70 s', '2 to 10 min', '2 min to 2.5 h')
    """
    small, small_unit = _one(low)
    large, large_unit = _one(high)
    return (
        f"{small} to {large} {large_unit}"
        if small_unit == large_unit
        else (f"{small} {small_unit} to {large} {large_unit}")
    )


def _one(seconds: float) -> tuple[str, str]:
    if seconds < 100:
        return f"{seconds:.0f}", "s"
    if seconds < 6000:
        return f"{seconds / 60:.0f}", "min"
    return f"{seconds / 3600:.1f}", "h"


def _short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.{int(seconds < 0.01)}f} ms"


def _seconds_of_iteration(
    model: nn.Module,
    request: Request,
    local: LocalSpec,
    dataset: Dataset,
    settings: Inversion,
) -> float:
    """Return the seconds of one iteration of a fit: the difference of two lengths."""
    inputs = inputs_of(model, dataset)
    start = next(name for name in starts_of(settings.start) if name != BORROWED)
    plain = dataclasses.replace(
        settings, start=start, patience=0, restart_loss=0.0, max_seconds=None
    )
    lengths = {n: dataclasses.replace(plain, iterations=n) for n in (_SHORT, _LONG)}
    _timed(model, request, local, inputs, lengths[_SHORT])  # warms up
    taken = dict.fromkeys(lengths, math.inf)
    began = time.perf_counter()
    for _ in range(_REPEATS):
        for length, short in lengths.items():
            taken[length] = min(taken[length], _timed(model, request, local, inputs, short))
        if time.perf_counter() - began >= _ENOUGH_SECONDS:
            break
    looked_at = min(settings.updates_per_iteration, settings.history)
    return looked_at * max(0.0, taken[_LONG] - taken[_SHORT]) / (_LONG - _SHORT)


def _timed(
    model: nn.Module, request: Request, local: LocalSpec, inputs: InputSpec, settings: Inversion
) -> float:
    began = time.perf_counter()
    fit_many(model, [request], local=local, inputs=inputs, settings=settings)
    if next(iter(request.base.values())).device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began
