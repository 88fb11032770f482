"""Executors: where the independent parts of one round's work are done."""

from unstale.executors.background import Background
from unstale.executors.base import Executor, WorkerError
from unstale.executors.inline import Inline
from unstale.executors.on_ray import OnRay
from unstale.executors.processes import Processes

__all__ = ["Background", "Executor", "Inline", "OnRay", "Processes", "WorkerError"]
