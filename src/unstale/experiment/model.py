"""The model of an experiment: seeded; pretrained, fixed and frozen where that is asked."""

import dataclasses
import logging
from pathlib import Path

from torch import nn

from unstale import models
from unstale.data import Dataset
from unstale.data.roots import data_roots
from unstale.errors import ConfigError, RunError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.own import check_fit, own_model
from unstale.files import write_json
from unstale.models import LoadedWeights
from unstale.run_folder.folder import RunFolder
from unstale.seeding import derive
from unstale.sim import Scenario
from unstale.training.fixing import fixed_copy, model_fixes

logger = logging.getLogger(__name__)


def build_model(
    config: ExperimentConfig,
    input_shape: tuple[int, ...],
    num_classes: int,
    seed: int,
    data_root: str | None = None,
    words: int | None = None,
) -> tuple[nn.Module, LoadedWeights | None]:
    """Return the model of an experiment, and what was loaded into it.

    Initial weights depend on the seed only. Pretrained ones replace them, except for a head that
    does not fit. Then the model is fixed, if the experiment says so, and frozen parts are frozen.

    Args:
        config: The experiment.
        input_shape: The shape of one input.
        num_classes: Number of logits.
        seed: The seed of the run.
        data_root: The folder of data sets and weights; see `unstale.data.data_roots`.
        words: The number of token ids, if inputs are these.

    Raises:
        ConfigError: If the model, its weights or a part to freeze is wrong.
    """
    tokens = {} if words is None else {"vocabulary": words}
    drawn = derive(seed, "model")
    if config.own_model is not None:
        given = config.model_settings
        model = own_model(config.own_model, given, input_shape, num_classes, drawn, words)
    else:
        settings = {**tokens, **config.model_settings}
        model = models.build(config.model, input_shape, num_classes, seed=drawn, **settings)
    loaded = None
    if config.weights is not None:
        loaded = models.load_weights(model, find_weights(config.weights, data_root))
    if config.fix:
        model = fixed_copy(model)[0]
    if config.freeze:
        models.freeze(model, config.freeze)
    return model, loaded


def model_of(
    config: ExperimentConfig, scenario: Scenario, data_root: str | None = None
) -> nn.Module:
    """Return the model of an experiment for one scenario."""
    return model_for(config, scenario.data, scenario.seed, data_root)[0]


def model_for(
    config: ExperimentConfig, dataset: Dataset, seed: int, data_root: str | None = None
) -> tuple[nn.Module, LoadedWeights | None]:
    """Return the model of an experiment for a data set, and what was loaded into it.

    Raises:
        ConfigError: As `build_model`; also if the model takes token ids and the data set has
            none, or the other way, or if a model of one's own does not fit the data.
    """
    is_text = dataset.vocabulary is not None
    if config.own_model is None and models.takes_tokens(config.model) != is_text:
        fitting = [name for name in models.names() if models.takes_tokens(name) == is_text]
        raise ConfigError(
            f"The model should take the data set's inputs. Found '{dataset.name}', which has "
            f"{'token ids' if is_text else 'numbers'}, and '{config.model}', which takes "
            f"{'numbers' if is_text else 'token ids'}. Use one of: {', '.join(fitting)}."
        )
    words = None if dataset.vocabulary is None else len(dataset.vocabulary)
    shape, classes = dataset.input_shape, dataset.num_classes
    model, loaded = build_model(config, shape, classes, seed, data_root, words)
    if config.own_model is not None:
        check_fit(model, dataset)
    return model, loaded


def log_fixes(
    config: ExperimentConfig, dataset: Dataset, seed: int, data_root: str | None = None
) -> None:
    """Log what `fix = true` changes in the model, once for a run; nothing without it."""
    if not config.fix:
        return
    as_given, _ = model_for(dataclasses.replace(config, fix=False), dataset, seed, data_root)
    listed = "\n".join(f"- {fix}" for fix in model_fixes(as_given)) or "- none: it needs no change"
    logger.warning("`model.fix` made these changes:\n%s", listed)


def find_weights(file: str, data_root: str | None = None) -> Path:
    """Return the path of a weights file: absolute, or under the first data root that has it.

    Raises:
        ConfigError: If there is none; says where it was looked for.
    """
    roots = data_roots(data_root)
    # The path of an absolute file is itself under every root.
    paths = list(dict.fromkeys(root / Path(file).expanduser() for root in roots))
    for path in paths:
        if path.is_file():
            return path
    raise ConfigError(
        f"`model.weights` should name a file: absolute, beside the experiment file, or under a "
        f"data root. Found none at {', '.join(map(str, paths))}. Put the file there, or name "
        "another data root by --data or UNSTALE_DATA."
    )


def record_weights(folder: RunFolder, loaded: LoadedWeights) -> None:
    """Write into a run folder what was loaded; compare it, if the run began before.

    Raises:
        RunError: If the run began with another file.
    """
    path = folder.weights_path
    if path.is_file():
        began = folder.read_json(path).get("sha256")
        if began != loaded.sha256:
            raise RunError(
                f"A run should be resumed with the weights it began with, of checksum {began}. "
                f"Found {loaded.sha256} of {loaded.file}. Use the same file, or choose another "
                "folder."
            )
        return
    write_json(
        path,
        {
            "file": loaded.file,
            "sha256": loaded.sha256,
            "says": str(loaded),
            "taken": len(loaded.taken),
            "initial": list(loaded.initial),
            "unused": list(loaded.unused),
        },
    )
