"""Running an experiment into a run folder, and resuming one that stopped."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from unstale import data
from unstale.errors import ConfigError
from unstale.experiment.all_parts import Runner
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.forecast import expectations
from unstale.experiment.load_data import load_data
from unstale.experiment.model import log_fixes, model_for, record_weights
from unstale.experiment.opening import open_folder
from unstale.experiment.own_record import record_own
from unstale.experiment.privacy_summary import privacy_summary
from unstale.experiment.progress import Progress, Silent
from unstale.experiment.threads import cpu_threads, threads_of
from unstale.experiment.to_sinks import ToSinks
from unstale.experiment.tuning.criteria import check_affected
from unstale.experiment.tuning.recorded import begin_record, settle_record
from unstale.experiment.tuning.tries import run_tries, with_choices
from unstale.methods.base import trains_model
from unstale.out_places import require_folder
from unstale.privacy import require_accountant
from unstale.run_folder.folder import RunFolder
from unstale.run_folder.summary import write_summary
from unstale.run_folder.tuning import TuningRecord
from unstale.sim import Scenario
from unstale.sinks import Feed, Sink, as_sinks
from unstale.training.device import resolve_device
from unstale.training.model_checks import check_model


def run_experiment(
    config: ExperimentConfig,
    folder: RunFolder,
    *,
    device: str = "cpu",
    data_root: str | None = None,
    progress: Progress | None = None,
    command: str = "",
    checkpoint_seconds: float = 5.0,
    jobs: int = 1,
    tune: bool = False,
    tuned: TuningRecord | None = None,
    sinks: Sequence[Sink | str] = (),
) -> dict[str, Any]:
    """Run all methods and seeds of an experiment and return the summary.

    An unfinished run of the same config in `folder` is resumed from its last checkpoint and
    gives the same numbers as an undisturbed one. For one seed, all methods have the same
    data, partition, cohorts and initial weights.

    Args:
        config: The experiment.
        folder: The run folder: new, or with an unfinished run of the same config.
        device: The torch device to train on.
        data_root: The folder of data sets and weights; see `unstale.data.data_roots`.
        progress: Notified of every round.
        command: The command that started the run, for the record.
        checkpoint_seconds: Seconds between two checkpoints of a method and seed.
        jobs: Number of processes that run methods and seeds in parallel; results do not depend
            on it. Methods that a script has registered are not known in other processes.
        tune: First choose the settings of methods that list some, on the tuning seeds. A run
            that began so is resumed so.
        tuned: Settings that were chosen before, from `load_tuned`. Without either, methods run
            with their own settings, whatever they list.
        sinks: Where rounds and summary also go while the run goes on; by name or as an object.
            They change nothing: what fails is logged and dropped. The tries of a tuning are not
            handed to them.

    Raises:
        UnstaleError: If the config, the data or the folder is wrong.
    """
    if type(jobs) is not int or jobs < 1:
        raise ConfigError(f"`jobs` should be a whole number of at least 1. Found {jobs!r}.")
    require_folder(folder.path, "out")
    receivers = as_sinks(sinks)
    new = begin_record(config, tune=tune, tuned=tuned)
    where = resolve_device(device)
    config.storage.seal()  # the key should be there before anything is written
    if config.protection.is_private:
        require_accountant()
    # Data and model first: no folder is created if they are missing or wrong.
    dataset = load_data(config, data_root)
    scenarios = {seed: Scenario(config.scenario, dataset, seed) for seed in config.seeds}
    model, weights = model_for(config, dataset, config.seeds[0], data_root)
    on_server = any(trains_model(method.build().compensator) for method in config.methods)
    check_model(model, stateful=not on_server)
    affected = config.evaluate.affected
    for klass in affected or ():
        if not 0 <= klass < dataset.num_classes:
            raise ConfigError(
                f"`evaluate.affected` should hold classes from 0 to {dataset.num_classes - 1}. "
                f"Found {klass}."
            )
    tuning = _tuning_scenarios(config, dataset) if tune else {}
    folder.lock()
    feed = Feed(receivers, folder)
    try:
        threads = threads_of(config.threads, folder)
        with cpu_threads(threads):
            log_fixes(config, dataset, config.seeds[0], data_root)
            record = settle_record(folder, new)
            is_new = not folder.is_run
            open_folder(config, folder, where, command)
            if weights is not None:
                record_weights(folder, weights)
            record_own(config, folder, dataset, model)
            runner = Runner(
                where, data_root, threads, checkpoint_seconds, jobs, progress or Silent()
            )
            if record is not None and not record.finished:
                tuning = tuning or _tuning_scenarios(config, dataset)
                record = run_tries(config, record, folder, tuning, runner, command)
            chosen = config if record is None else with_choices(config, record)
            # What is left of a run that goes on is not known here.
            notes = expectations(chosen, scenarios, model, runner) if is_new else ()
            told = dataclasses.replace(runner, progress=ToSinks(runner.progress, feed))
            told.run(chosen, folder, scenarios, notes=notes)
            return write_summary(
                folder,
                {
                    **({} if record is None else {"tuning": record.summary()}),
                    **privacy_summary(chosen, folder),
                },
            )
    finally:
        feed.close()
        folder.unlock()


def _tuning_scenarios(config: ExperimentConfig, dataset: data.Dataset) -> dict[int, Scenario]:
    """Return the scenarios of the tuning seeds.

    Raises:
        ConfigError: If the criterion needs affected classes and there are none.
    """
    if config.tuning is None:
        return {}
    found = {seed: Scenario(config.scenario, dataset, seed) for seed in config.tuning.seeds}
    for seed, scenario in found.items():
        affected = config.evaluate.affected
        check_affected(
            config.tuning.criterion, scenario.affected if affected is None else affected, seed
        )
    return found
