"""Experiments: a TOML file in, a run folder out."""

from unstale.experiment.check import check_experiment
from unstale.experiment.config import ExperimentConfig, parse
from unstale.experiment.load import load_experiment, tuning_beside
from unstale.experiment.load_data import load_data
from unstale.experiment.method_config import MethodConfig
from unstale.experiment.progress import Progress
from unstale.experiment.run import run_experiment
from unstale.experiment.tuning.recorded import load_tuned, tuning_of
from unstale.run_folder.folder import RunFolder, latest_folder, next_folder
from unstale.run_folder.summary import for_programs, summarise

__all__ = [
    "ExperimentConfig",
    "MethodConfig",
    "Progress",
    "RunFolder",
    "check_experiment",
    "for_programs",
    "latest_folder",
    "load_data",
    "load_experiment",
    "load_tuned",
    "next_folder",
    "parse",
    "run_experiment",
    "summarise",
    "tuning_beside",
    "tuning_of",
]
