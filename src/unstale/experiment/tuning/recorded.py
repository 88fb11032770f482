"""Settings that were chosen before: which record a run uses, and whether it fits the run."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unstale.errors import ConfigError, RunError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.tuning.plan import plan
from unstale.experiment.tuning.spec import check_seeds
from unstale.run_folder import RunFolder
from unstale.run_folder.differences import differences
from unstale.run_folder.tuning import TuningRecord, read_tuning, write_tuning

# Keys of a config in which two experiments may differ without a word: what it is called, what
# is reported, how fast it runs.
_NO_MATTER = ("name", "title", "description", "seeds", "threads", "oracle")


def begin_record(
    config: ExperimentConfig, *, tune: bool, tuned: TuningRecord | None
) -> TuningRecord | None:
    """Return the record that a new run goes by: a plan, one of before, or None for neither.

    Raises:
        ConfigError: If there is nothing to tune, or the record does not fit the experiment.
    """
    if tune and tuned is not None:
        raise ConfigError(
            "A run should either choose settings or use those of before. Found both `tune` and "
            "`tuned`. Leave out one."
        )
    if not tune:
        return None if tuned is None else fitting(tuned, config)
    if not config.tunable or config.tuning is None:
        raise ConfigError(
            "A run with --tune should have settings to choose from. Found no method with `tune`. "
            "Give one a table such as tune = { SETTING = [VALUE, VALUE] }."
        )
    return plan(config.methods, config.tuning, config.to_json())


def tuning_of(
    config: ExperimentConfig, folder: RunFolder, *, tune: bool, tuned: TuningRecord | None
) -> TuningRecord | None:
    """Return the record that a run in a folder would go by, without writing anything."""
    new = begin_record(config, tune=tune, tuned=tuned)
    return read_tuning(folder.tuning_path) if folder.is_run else new


def settle_record(folder: RunFolder, new: TuningRecord | None) -> TuningRecord | None:
    """Return the record of the run in a folder; a new run's is written there first.

    So a run goes on as it began, with or without tuned settings.

    Raises:
        RunError: If the run in the folder began in another way.
    """
    if not folder.is_run:
        folder.tuning_path.unlink(missing_ok=True)  # of a run that stopped before it began
        if new is not None:
            write_tuning(folder.tuning_path, new)
        return new
    record = read_tuning(folder.tuning_path)
    if new is not None and _how(new) != _how(record):
        raise RunError(
            f"A run should be resumed as it began. {folder.path} began {_how(record)}. Give the "
            "same options, or choose another folder."
        )
    return record


def _how(record: TuningRecord | None) -> str:
    """Say how a run with this record began."""
    if record is None:
        return "without tuned settings"
    return "with --tune" if record.elsewhere is None else "with settings of another run (--tuned)"


def fitting(record: TuningRecord, config: ExperimentConfig) -> TuningRecord | None:
    """Return the part of another run's record that is of use here; None if there is none.

    Raises:
        ConfigError: If its tries are not done, were made on seeds that are reported here, or
            were made of other lists.
    """
    if not record.finished:
        raise ConfigError(
            "A record of tuned settings should be of a tuning that is done. Found an unfinished "
            "one. Go on with that run by --resume first."
        )
    check_seeds(config.seeds, record.seeds)
    known = {m.label: m for m in config.tunable if m.label in record.methods}
    for label, method in known.items():
        one = record.methods[label]
        listed = None if method.tune is None else method.tune.to_json()
        if one.name != method.name or one.candidates != listed:
            raise ConfigError(
                f"Tuned settings should have been chosen from what the experiment lists. For "
                f"'{label}' it lists {listed}; the record chose from {one.candidates}. Tune "
                "again with --tune, or remove the record."
            )
    if not known:
        return None
    before, now = (_compared(table, known) for table in (record.config, config.to_json()))
    return dataclasses.replace(
        record,
        methods={label: record.methods[label] for label in known},
        elsewhere=tuple(differences(before, now)),
    )


def load_tuned(path: Path) -> TuningRecord:
    """Return the record in a run folder, or in a file.

    Raises:
        ConfigError: If there is none.
        RunError: If it is damaged.
    """
    file = RunFolder(path).tuning_path if path.is_dir() else path
    found = read_tuning(file)
    if found is None:
        raise ConfigError(
            "Tuned settings should be in a run folder that `unstale run --tune` made, or in its "
            f"tuning.json. There is no {file}."
        )
    return found


def _compared(table: Mapping[str, Any], labels: Mapping[str, object]) -> dict[str, Any]:
    """Return what two experiments are compared by, with their tuned methods by label."""
    kept = {key: value for key, value in table.items() if key not in _NO_MATTER}
    methods = kept.get("methods")
    listed = [m for m in methods if isinstance(m, dict)] if isinstance(methods, list) else []
    kept["methods"] = {m["label"]: m for m in listed if m.get("label") in labels}
    return kept
