"""The plan of a tuning: which settings are tried of which method, checked before any runs."""

from collections.abc import Iterable, Sequence
from typing import Any

from unstale.errors import ConfigError
from unstale.experiment.method_config import MethodConfig
from unstale.experiment.tuning.candidates import Candidates
from unstale.experiment.tuning.criteria import CRITERIA
from unstale.experiment.tuning.spec import TuningSpec, check_budget, check_seeds
from unstale.run_folder.tuning import Try, TunedMethod, TuningRecord


def check_plan(methods: Sequence[MethodConfig], spec: TuningSpec, reported: Sequence[int]) -> None:
    """Check seeds, budget and every setting that would be tried.

    Raises:
        ConfigError: If seeds overlap, budgets differ, or a method cannot be built.
    """
    check_seeds(reported, spec.seeds)
    found = {method.label: method.tune for method in methods if method.tune is not None}
    check_budget(found, spec.budget)
    for method in methods:
        if (candidates := method.tune) is None:
            continue
        where = f"{method.label}.tune"
        for key, values in candidates.grid.items():
            for value in values:  # also of those that are not drawn
                method.with_settings({key: value}, where)
        for settings in _drawn(method.label, candidates, spec):
            try:
                method.with_settings(settings, where).build()
            except ConfigError as error:
                raise ConfigError(f"`{where}` with {settings}: {error}") from error


def plan(methods: Iterable[MethodConfig], spec: TuningSpec, config: dict[str, Any]) -> TuningRecord:
    """Return the record of a tuning that has not begun.

    Args:
        methods: The methods of the experiment; those that list nothing are left out.
        spec: On which seeds, how many settings, and by which criterion.
        config: The resolved experiment, for the record.
    """
    planned = {
        method.label: TunedMethod(
            name=method.name,
            candidates=method.tune.to_json(),
            size=len(method.tune),
            tries=tuple(Try(s) for s in _drawn(method.label, method.tune, spec)),
        )
        for method in methods
        if method.tune is not None
    }
    return TuningRecord(
        criterion=spec.criterion,
        says=CRITERIA[spec.criterion].says,
        seeds=spec.seeds,
        budget=spec.budget or max(len(one.tries) for one in planned.values()),
        methods=planned,
        config=config,
    )


def _drawn(label: str, candidates: Candidates, spec: TuningSpec) -> list[dict[str, Any]]:
    return candidates.drawn(spec.budget, spec.seeds[0], label)
