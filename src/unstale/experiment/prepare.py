"""Creating the simulation of one method in one scenario."""

import torch

from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_config import MethodConfig
from unstale.experiment.model import model_of
from unstale.inversion import InputSpec
from unstale.server import Server
from unstale.sim import Scenario, Simulation


def prepare(
    config: ExperimentConfig,
    method: MethodConfig,
    scenario: Scenario,
    device: torch.device,
    data_root: str | None = None,
) -> Simulation:
    """Return the simulation of a method, at round 0."""
    model = model_of(config, scenario, data_root).to(device)
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
