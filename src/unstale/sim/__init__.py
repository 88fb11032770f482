"""The simulator: clients that train in virtual time, measured in rounds."""

from unstale.sim.engine import Simulation
from unstale.sim.evaluate import Scores, evaluate
from unstale.sim.scenario import Scenario, ScenarioSpec
from unstale.sim.training import Work, train_cohort

__all__ = [
    "Scenario",
    "ScenarioSpec",
    "Scores",
    "Simulation",
    "Work",
    "evaluate",
    "train_cohort",
]
