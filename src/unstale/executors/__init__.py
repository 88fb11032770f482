"""Executors: parallel and background computation of independent work."""

from unstale.executors.background import Background
from unstale.executors.base import Executor, Inline, WorkerError
from unstale.executors.on_ray import OnRay
from unstale.executors.processes import Processes

__all__ = ["Background", "Executor", "Inline", "OnRay", "Processes", "WorkerError"]
