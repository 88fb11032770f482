"""The experiments that the runs of an item stand for, at full size or small."""

import json
from collections.abc import Sequence
from typing import Any

from unstale.experiment import ExperimentConfig, load_experiment, tuning_of
from unstale.reproduce.items import PlannedRun
from unstale.reproduce.smoke import SEED, smoke_settings
from unstale.reproduce.toml import read_toml
from unstale.run_folder import RunFolder


def config_of(
    run: PlannedRun, *, smoke: bool = False, seeds: Sequence[int] | None = None
) -> ExperimentConfig:
    """Return the experiment of a run.

    Args:
        run: The run.
        smoke: Make it small.
        seeds: Instead of the file's seeds.

    Raises:
        ConfigError: If the experiment file or a setting is wrong.
    """
    settings: dict[str, Any] = {"name": f"{run.item}-{run.name}", **(run.settings or {})}
    if smoke:
        settings |= smoke_settings(read_toml(run.experiment)) | dict(run.smoke or {})
        seeds = seeds or [SEED]
    overrides = [f"{key}={_toml(value)}" for key, value in settings.items()]
    return load_experiment(run.experiment, overrides=overrides, seeds=seeds)


def _toml(value: Any) -> str:
    """Return a value as TOML; JSON's numbers, texts, truths and lists are TOML's, too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


def planned_rounds(config: ExperimentConfig, folder: RunFolder, *, tune: bool) -> dict[str, int]:
    """Return how many rounds each method of an experiment takes, tries of a tuning included."""
    found = {method.label: config.rounds * len(config.seeds) for method in config.methods}
    record = tuning_of(config, folder, tune=tune, tuned=None)
    if record is not None:
        for label, one in record.methods.items():
            for number in range(1, len(one.tries) + 1):
                found[f"{label}-{number}"] = config.rounds * len(record.seeds)
    return found
