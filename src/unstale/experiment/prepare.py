"""Creating the simulation of one method in one scenario."""

import torch
from torch import nn

from unstale import models
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_config import MethodConfig
from unstale.inversion import InputSpec
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
        inputs=InputSpec(
            scenario.data.input_shape,
            scenario.data.num_classes,
            scenario.data.low,
            scenario.data.high,
        ),
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
    return models.build(
        config.model,
        scenario.data.input_shape,
        scenario.data.num_classes,
        seed=derive(scenario.seed, "model"),
        **config.model_settings,
    )
