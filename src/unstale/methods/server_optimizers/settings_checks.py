"""Checks of the settings of server optimizers."""

import math

from unstale.errors import ConfigError


def check_lr(name: str, lr: float) -> None:
    """Raise ConfigError unless the learning rate is above 0."""
    if not (_is_number(lr) and lr > 0):
        raise ConfigError(f"{name}: `lr` should be a number above 0. Found {lr!r}.")


def check_decay(name: str, setting: str, value: float) -> None:
    """Raise ConfigError unless a decay is in [0, 1)."""
    if not (_is_number(value) and 0 <= value < 1):
        raise ConfigError(f"{name}: `{setting}` should be in [0, 1). Found {value!r}.")


def check_tau(name: str, tau: float) -> None:
    """Raise ConfigError unless the degree of adaptivity is above 0."""
    if not (_is_number(tau) and tau > 0):
        raise ConfigError(f"{name}: `tau` should be a number above 0. Found {tau!r}.")


def check_initial_v(name: str, value: float | None) -> None:
    """Raise ConfigError unless the first second moment is left out, or at least 0."""
    if value is not None and not (_is_number(value) and value >= 0):
        raise ConfigError(
            f"{name}: `initial_v` should be at least 0, or left out for tau². Found {value!r}."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
