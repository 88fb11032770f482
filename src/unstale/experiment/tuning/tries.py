"""Running what a tuning tries, and choosing the best of it.

The tries are an experiment of their own, on the tuning seeds, in the folder `tuning` of the
run. So they are checkpointed, resumed and run side by side as every experiment is, and
`unstale report` shows their curves.
"""

import dataclasses
import math
import shutil
import statistics
from collections.abc import Iterator, Mapping

from unstale.errors import RunError
from unstale.experiment.all_parts import Runner
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_config import MethodConfig
from unstale.experiment.opening import open_folder
from unstale.experiment.tuning.criteria import CRITERIA, FIGURES, divergence, figures_of
from unstale.run_folder import Lines, RunFolder, write_summary
from unstale.run_folder.tuning import Try, TunedMethod, TuningRecord, write_tuning
from unstale.sim import Scenario


def run_tries(
    config: ExperimentConfig,
    record: TuningRecord,
    folder: RunFolder,
    scenarios: Mapping[int, Scenario],
    runner: Runner,
    command: str,
) -> TuningRecord:
    """Run all tries that are not done, choose, and write the record into the run folder.

    Args:
        config: The experiment whose methods are tuned.
        record: The plan.
        folder: The run folder of the experiment, which holds the config already.
        scenarios: The scenario of each tuning seed.
        runner: Where and how to run.
        command: The command that started the run, for the record.

    Raises:
        RunError: If all tries of a method failed.
    """
    within = folder.tries
    tries = experiment_of_tries(config, record)
    open_folder(tries, within, runner.device, command)
    runner.run(tries, within, scenarios, keep_failures=True)
    scored = {
        label: _scored(label, one, record, within, config.rounds)
        for label, one in record.methods.items()
    }
    write_summary(within)
    done = dataclasses.replace(
        record,
        methods=scored,
        finished=True,
        environment=folder.read_json(folder.path / "environment.json"),
    )
    write_tuning(folder.tuning_path, done)
    # They served to resume; the weights of tries are of no further use.
    shutil.rmtree(within.path / "checkpoints", ignore_errors=True)
    return done


def experiment_of_tries(config: ExperimentConfig, record: TuningRecord) -> ExperimentConfig:
    """Return the experiment that runs every try as a method, such as `first_order-1`."""
    methods = {method.label: method for method in config.methods}
    return dataclasses.replace(
        config,
        name=f"{config.name}-tuning",
        title=f"Tuning: {config.title or config.name}",
        seeds=record.seeds,
        methods=tuple(
            dataclasses.replace(methods[label].with_settings(one.settings), label=name)
            for label, tuned in record.methods.items()
            for name, one in _labelled(label, tuned)
        ),
        oracle=False,  # what it measures, no criterion uses
        tuning=None,
    )


def with_choices(config: ExperimentConfig, record: TuningRecord) -> ExperimentConfig:
    """Return the experiment with the settings that were chosen; the rest as it was."""

    def tuned(method: MethodConfig) -> MethodConfig:
        one = record.methods.get(method.label)
        choice = None if one is None else one.choice
        return method if choice is None else method.with_settings(choice.settings)

    return dataclasses.replace(config, methods=tuple(map(tuned, config.methods)))


def choose(tries: tuple[Try, ...], criterion: str) -> int | None:
    """Return the position of the best try; None if none has a score.

    Of tries with the same score the criterion's second figure decides, then the order.

    Example:
        >>> bad, good = Try({}, score=0.1), Try({"lam": 5}, score=0.9)
        >>> choose((bad, good, Try({"lam": 9}, fault="diverged")), "accuracy")
        1
    """
    tie = CRITERIA[criterion].tie

    def rank(position: int) -> tuple[float, float, int]:
        one = tries[position]
        second = one.figures.get(tie)
        return (one.score or 0.0, -math.inf if second is None else second, -position)

    sound = [position for position, one in enumerate(tries) if one.score is not None]
    return max(sound, key=rank, default=None)


def _labelled(label: str, tuned: TunedMethod) -> Iterator[tuple[str, Try]]:
    for number, one in enumerate(tuned.tries, start=1):
        yield f"{label}-{number}", one


def _scored(
    label: str, tuned: TunedMethod, record: TuningRecord, folder: RunFolder, rounds: int
) -> TunedMethod:
    tries = []
    errors = []
    for name, one in _labelled(label, tuned):
        error = _failure(folder, name, record.seeds)
        errors.append(error)
        tries.append(_judged(one, name, record, folder, rounds, error))
    if all(errors):
        raise RunError(
            f"At least one try of method '{label}' should run to its end. All failed; the first "
            f"one: {errors[0]} Change the values that are tried, or go on with --resume if the "
            "reason lies elsewhere."
        )
    found = tuple(tries)
    return dataclasses.replace(tuned, tries=found, chosen=choose(found, record.criterion))


def _judged(
    one: Try, name: str, record: TuningRecord, folder: RunFolder, rounds: int, error: str
) -> Try:
    """Return a try with its figures, and with a score unless it failed or diverged."""
    if error:
        return dataclasses.replace(one, fault=f"failed: {error}")
    per_seed = {}
    fault = ""
    for seed in record.seeds:
        lines = Lines(folder.lines_path(name, seed)).read()
        per_seed[seed] = figures_of(lines, rounds)
        fault = fault or divergence(lines)
    means: dict[str, float | None] = {}
    for figure in FIGURES:
        values = [value for found in per_seed.values() if (value := found[figure]) is not None]
        means[figure] = statistics.fmean(values) if len(values) == len(per_seed) else None
    score = None if fault else CRITERIA[record.criterion].score(means)
    return dataclasses.replace(one, score=score, figures=means, per_seed=per_seed, fault=fault)


def _failure(folder: RunFolder, name: str, seeds: tuple[int, ...]) -> str:
    for seed in seeds:
        path = folder.failure_path(name, seed)
        if path.is_file():
            return str(folder.read_json(path).get("error", "no reason given"))
    return ""
