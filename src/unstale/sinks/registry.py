"""Sinks by name, and sinks of the user's own."""

from collections.abc import Sequence
from typing import Any

from unstale.errors import ConfigError, UnknownNameError
from unstale.lazy import load_named
from unstale.sinks.base import Sink

SINKS = {
    "tensorboard": "unstale.sinks.tensorboard:TensorBoard",
    "mlflow": "unstale.sinks.mlflow:MLflow",
    "wandb": "unstale.sinks.wandb:WandB",
}
"""Where the class of each sink is."""


def as_sink(value: Any) -> Sink:
    """Return the sink that a name, a "module:Class" or an object stands for.

    Raises:
        ConfigError: If it is none, or its library is not installed.
        UnknownNameError: If there is no sink of that name.
    """
    if isinstance(value, str):
        if ":" not in value and value not in SINKS:
            raise UnknownNameError("A sink", value, SINKS)
        value = load_named(SINKS.get(value, value))()
    if isinstance(value, type) or not isinstance(value, Sink):
        raise ConfigError(
            f"A sink should be one of {', '.join(SINKS)}, a class as 'module:Class', or an object "
            f"with a method `open`. Found {value!r}."
        )
    return value


def as_sinks(given: Sequence[Sink | str] | Sink | str) -> list[Sink]:
    """Return the sinks that a list of names and objects stands for, or a single one."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [as_sink(given)]
    return [as_sink(one) for one in given]
