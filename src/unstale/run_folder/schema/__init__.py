"""The schema of a run's lines: typed, with a version, and importable without torch."""

from unstale.run_folder.schema.calibration import Calibrated
from unstale.run_folder.schema.checked import DamageError, VersionError
from unstale.run_folder.schema.conversions import Converted, FellBack, Measured
from unstale.run_folder.schema.nodes import Nodes, RefusedReply
from unstale.run_folder.schema.recipes import OtherRecipe
from unstale.run_folder.schema.round import SCHEMA, Metric, Round
from unstale.run_folder.schema.stand_ins import Checked, StoodIn

__all__ = [
    "SCHEMA",
    "Calibrated",
    "Checked",
    "Converted",
    "DamageError",
    "FellBack",
    "Measured",
    "Metric",
    "Nodes",
    "OtherRecipe",
    "RefusedReply",
    "Round",
    "StoodIn",
    "VersionError",
]
