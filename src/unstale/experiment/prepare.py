"""Creating the simulation of one method in one scenario."""

import torch
from torch import nn

from unstale import models
from unstale.data import Dataset
from unstale.errors import ConfigError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_config import MethodConfig
from unstale.inversion import InputSpec, embedded_inputs
from unstale.seeding import derive
from unstale.server import Server
from unstale.sim import Scenario, Simulation


def prepare(
    config: ExperimentConfig, method: MethodConfig, scenario: Scenario, device: torch.device
) -> Simulation:
    """Return the simulation of a method, at round 0."""
    model = model_of(config, scenario).to(device)
    built = method.build()
    server = Server(
        model,
        built,
        local=config.local,
        history=config.history,
        limits=config.limits,
        inputs=inputs_of(model, scenario.data),
        seed=scenario.seed,
    )
    return Simulation(
        server,
        model,
        scenario,
        affected=config.evaluate.affected,
        delayed=built.delayed,
        with_oracle=config.oracle,
        evaluate_every=config.evaluate.every,
        device=device,
    )


def model_of(config: ExperimentConfig, scenario: Scenario) -> nn.Module:
    """Return the model with initial weights that depend on the scenario's seed only."""
    return model_for(config, scenario.data, scenario.seed)


def model_for(config: ExperimentConfig, dataset: Dataset, seed: int) -> nn.Module:
    """Return the experiment's model for a data set; for text, with its number of token ids.

    Raises:
        ConfigError: If the model takes token ids and the data set has none, or the other way.
    """
    settings = dict(config.model_settings)
    words = dataset.vocabulary
    if models.takes_tokens(config.model) != (words is not None):
        fitting = [n for n in models.names() if models.takes_tokens(n) == (words is not None)]
        raise ConfigError(
            f"The model should take the data set's inputs. Found '{dataset.name}', which has "
            f"{'numbers' if words is None else 'token ids'}, and '{config.model}', which takes "
            f"{'token ids' if words is None else 'numbers'}. Use one of: {', '.join(fitting)}."
        )
    if words is not None:
        settings = {"vocabulary": len(words), **settings}
    return models.build(
        config.model,
        dataset.input_shape,
        dataset.num_classes,
        seed=derive(seed, "model"),
        **settings,
    )


def inputs_of(model: nn.Module, dataset: Dataset) -> InputSpec:
    """Return what one input of a surrogate looks like: as the data, or vectors of tokens."""
    if dataset.vocabulary is not None:
        return embedded_inputs(model, dataset.input_shape, dataset.num_classes)
    return InputSpec(dataset.input_shape, dataset.num_classes, dataset.low, dataset.high)
