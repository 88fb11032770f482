"""Everything that decides how a server works, as one object."""

from dataclasses import dataclass, field

from unstale.executors import Background, Executor
from unstale.inversion import InputSpec
from unstale.methods import Method, as_method
from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.training import LocalSpec


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server, for engines that make the server themselves.

    `Server(model, ...)` takes the same settings as keyword arguments.

    Example:
        >>> ServerSettings(method="first_order", local=LocalSpec(lr=0.1)).chosen.name
        'first_order'
    """

    method: str | Method = "unweighted"
    """A method by name, or as `unstale.method(name, ...)` makes it."""
    local: LocalSpec = field(default_factory=LocalSpec)
    """The recipe that clients run."""
    history: HistorySpec = field(default_factory=HistorySpec)
    """How many earlier versions are kept, and where."""
    limits: Limits = field(default_factory=Limits)
    """Bounds on what clients may send."""
    inputs: InputSpec | None = None
    """What one input of the model looks like; needed by methods that convert."""
    executor: Executor | None = None
    """Where conversions are computed; in this process when None. The caller closes it."""
    background: Background | None = None
    """Where surrogates are fitted while rounds go on; in the step when None. The caller
    closes it."""
    seed: int = 0
    """Seeds whatever the method draws."""

    @property
    def chosen(self) -> Method:
        """The method itself, also where it was given by name."""
        return as_method(self.method)
