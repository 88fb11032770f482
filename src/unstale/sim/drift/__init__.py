"""Drift: client data that changes from round to round."""

from unstale.sim.drift.look import LookDrift, LookPlan
from unstale.sim.drift.look_test_set import LookTestSet
from unstale.sim.drift.plan import Drift, DriftPlan, NoDrift, StillPlan
from unstale.sim.drift.resample import ResampleDrift, ResamplePlan
from unstale.sim.drift.shift import ShiftDrift, ShiftPlan

KINDS: dict[str, type[Drift]] = {
    "none": NoDrift,
    "resample": ResampleDrift,
    "shift": ShiftDrift,
    "look": LookDrift,
}
"""Drifts by their `kind` in experiment files."""

__all__ = [
    "KINDS",
    "Drift",
    "DriftPlan",
    "LookDrift",
    "LookPlan",
    "LookTestSet",
    "NoDrift",
    "ResampleDrift",
    "ResamplePlan",
    "ShiftDrift",
    "ShiftPlan",
    "StillPlan",
]
