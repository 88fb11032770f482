"""Sinks: where a run's numbers also go while it goes on, such as TensorBoard, MLflow or W&B."""

from unstale.sinks.base import Sink, SinkRun, SinkWriter
from unstale.sinks.feed import Feed
from unstale.sinks.registry import SINKS, as_sinks
from unstale.sinks.scalars import scalars_of, summary_scalars

__all__ = [
    "SINKS",
    "Feed",
    "Sink",
    "SinkRun",
    "SinkWriter",
    "as_sinks",
    "scalars_of",
    "summary_scalars",
]
