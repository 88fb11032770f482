"""The data of an experiment: registered or one's own; one data set, or two looks of it."""

from unstale import data
from unstale.errors import ConfigError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.own import own_dataset
from unstale.sim.drift import LookDrift


def load_data(config: ExperimentConfig, root: str | None = None) -> data.Dataset:
    """Load the data set of an experiment, with its second look if clients' data drifts to one.

    Args:
        config: The experiment.
        root: The folder of data sets; see `unstale.data.data_roots`.

    Raises:
        ConfigError: If the two looks do not fit together.
        DataError: If files are missing or damaged.

    Example:
        >>> from unstale.experiment import load_data, load_experiment
        >>> load_data(load_experiment("quickstart")).input_shape
        (1, 8, 8)
    """
    drift = config.scenario.drift
    if not isinstance(drift, LookDrift):
        return _first_look(config, root)
    if drift.to == config.data:
        raise ConfigError(
            f"`drift.to` should be another data set than `data.name`. Found '{drift.to}' in both."
        )
    return data.join_looks(_first_look(config, root), data.load(drift.to, root))


def _first_look(config: ExperimentConfig, root: str | None) -> data.Dataset:
    if config.own_data is not None:
        return own_dataset(config.own_data)
    return data.load(config.data, root)
