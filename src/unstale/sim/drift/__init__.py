"""Drift: client data that changes from round to round."""

from unstale.sim.drift.plan import Drift, DriftPlan, NoDrift, StillPlan
from unstale.sim.drift.resample import ResampleDrift, ResamplePlan
from unstale.sim.drift.shift import ShiftDrift, ShiftPlan

KINDS: dict[str, type[Drift]] = {
    "none": NoDrift,
    "resample": ResampleDrift,
    "shift": ShiftDrift,
}
"""Drifts by their `kind` in experiment files."""

__all__ = [
    "KINDS",
    "Drift",
    "DriftPlan",
    "NoDrift",
    "ResampleDrift",
    "ResamplePlan",
    "ShiftDrift",
    "ShiftPlan",
    "StillPlan",
]
