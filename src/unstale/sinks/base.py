"""What a sink is: it opens a run for each method and seed, which then gets scalars by round."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from unstale.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SinkRun:
    """One method with one seed, as a sink sees it."""

    id: str
    """A name of its own, of 16 letters and digits; the same after a resume."""
    experiment: str
    """The name of the experiment."""
    label: str
    """The label of the method."""
    seed: int
    """The seed."""
    folder: Path
    """The run folder. A sink that writes files puts them into a folder of its own in it."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The resolved config, with this method as `method` and this seed as `seed`."""
    written: int = 0
    """The last round that this sink got from an earlier process; 0 for a new run."""

    @property
    def name(self) -> str:
        """A name for people, such as "convert seed 0"."""
        return f"{self.label} seed {self.seed}"


class SinkWriter(Protocol):
    """A sink's end of one method with one seed.

    It may have an attribute `written`: the last round that it really has, if it knows that better
    than `SinkRun.written`. Rounds after that one are given to it from the run folder.
    """

    def write(self, round: int, scalars: Mapping[str, float]) -> None:
        """Take the scalars of a round; each round comes once, in order."""

    def close(self, summary: Mapping[str, float] | None) -> None:
        """Take the final summary and close; None if this process ends before the run does."""


@runtime_checkable
class Sink(Protocol):
    """Where a run's numbers also go while it goes on.

    All calls come from one thread beside the run. What they raise is logged once, and the sink
    gets no more of the run; the run itself goes on.

    Example:
        >>> class Printed:
        ...     def open(self, run):
        ...         self.run = run
        ...         return self
        ...     def write(self, round, scalars):
        ...         print(self.run.name, round, scalars["accuracy/all"])
        ...     def close(self, summary):
        ...         pass
        >>> isinstance(Printed(), Sink)
        True
        >>> writer = Printed().open(SinkRun("0", "quickstart", "convert", 7, Path("runs/a")))
        >>> writer.write(1, {"accuracy/all": 0.25})
        convert seed 7 1 0.25
    """

    def open(self, run: SinkRun) -> SinkWriter:
        """Begin a run, or go on with the one of the same `id`."""


def require(package: str, what: str, extra: str) -> None:
    """Make sure that a sink's library is installed, without importing it.

    Args:
        package: The package to import.
        what: The library's name, for the message.
        extra: The extra of Unstale that installs it.

    Raises:
        ConfigError: If it is not.
    """
    if find_spec(package) is None:
        raise ConfigError(
            f"{what} should be installed to be a sink. It is not. Install it with: "
            f"pip install 'unstale[{extra}]'. Or leave the sink `{extra}` out."
        )
