"""The data of an experiment: one data set, or two looks of the same classes."""

from unstale import data
from unstale.errors import ConfigError
from unstale.experiment.config import ExperimentConfig
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
        return data.load(config.data, root)
    if drift.to == config.data:
        raise ConfigError(
            f"`drift.to` should be another data set than `data.name`. Found '{drift.to}' in both."
        )
    return data.join_looks(data.load(config.data, root), data.load(drift.to, root))
