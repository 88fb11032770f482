"""Checks of the strategy's arguments: that each is of the kind that it should be."""

from collections.abc import Mapping

from unstale.errors import ConfigError


def check_arguments(given: Mapping[str, tuple[object, type]], delay: object) -> None:
    """Raise ConfigError if an argument is of the wrong kind.

    Args:
        given: Arguments by name, each with the class that it should be of.
        delay: The argument `delay`, a function if it is given.
    """
    for name, (value, wanted) in given.items():
        if not isinstance(value, wanted):
            raise ConfigError(
                f"Unstale: `{name}` should be a `{wanted.__name__}`. Found {type(value).__name__}."
            )
    if delay is not None and not callable(delay):
        raise ConfigError(
            "Unstale: `delay` should be a function from a node to a number of rounds. Found "
            f"{type(delay).__name__}."
        )
