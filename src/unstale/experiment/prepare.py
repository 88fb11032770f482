"""Creating the simulation of one method in one scenario."""

import dataclasses

import torch
from torch import nn

from unstale.data import Dataset
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_config import MethodConfig
from unstale.experiment.model import model_of
from unstale.inversion import InputSpec, embedded_inputs
from unstale.methods.base import trains_model
from unstale.methods.conversion import Convert, RecipeCheck
from unstale.server import Server
from unstale.sim import Scenario, Simulation
from unstale.training.as_token_model import as_token_model


def prepare(
    config: ExperimentConfig,
    method: MethodConfig,
    scenario: Scenario,
    device: torch.device,
    data_root: str | None = None,
) -> Simulation:
    """Return the simulation of a method, at round 0."""
    model = model_of(config, scenario, data_root)
    built = method.build()
    inputs = None
    if trains_model(built.compensator):
        model = taking_vectors(model, scenario.data)
    # Of token ids, only a method that converts needs a model that takes their vectors.
    if scenario.data.vocabulary is None or trains_model(built.compensator):
        inputs = inputs_of(model, scenario.data)
    model = model.to(device)
    if config.protection.enabled and isinstance(built.compensator, Convert):
        # What clients clip and hide looks like another recipe.
        unchecked = dataclasses.replace(built.compensator, recipe_check=RecipeCheck(enabled=False))
        built = dataclasses.replace(built, compensator=unchecked)
    server = Server(
        model,
        built,
        local=config.local,
        history=config.history,
        limits=config.limits,
        inputs=inputs,
        seed=scenario.seed,
        storage=config.storage,
        optimizer=config.optimizer,
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
        recipes=None if config.other_local is None else config.other_local.by_client(scenario),
        protection=config.protection,
    )


def taking_vectors(model: nn.Module, dataset: Dataset) -> nn.Module:
    """Return the model; one of token ids such that it takes their vectors as well.

    Raises:
        ModelError: If it cannot.
    """
    return model if dataset.vocabulary is None else as_token_model(model, dataset.x_train[:4])


def inputs_of(model: nn.Module, dataset: Dataset) -> InputSpec:
    """Return what one input of a surrogate looks like: as the data, or vectors of tokens."""
    if dataset.vocabulary is not None:
        return embedded_inputs(model, dataset.input_shape, dataset.num_classes)
    return InputSpec(dataset.input_shape, dataset.num_classes, dataset.low, dataset.high)
