"""The settings of a server as one object."""

from dataclasses import dataclass, field

from unstale.executors import Background, Executor
from unstale.inversion import InputSpec
from unstale.methods import Compensator, Method, as_method
from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.training import LocalSpec


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server, for code that creates servers, such as the Flower strategy.

    `Server(model, ...)` takes the same settings as keyword arguments.

    Example:
        >>> ServerSettings(method="first_order", local=LocalSpec(lr=0.1)).chosen.name
        'first_order'
    """

    method: str | Method | Compensator = "unweighted"
    """A method by name, a `Method` from `unstale.method(name, ...)`, or a compensator such as
    `Convert(...)`, whose updates are combined by FedAvg."""
    local: LocalSpec = field(default_factory=LocalSpec)
    """The training recipe that clients run."""
    history: HistorySpec = field(default_factory=HistorySpec)
    """How many earlier versions are kept, and where."""
    limits: Limits = field(default_factory=Limits)
    """Limits on the updates that clients may send."""
    inputs: InputSpec | None = None
    """Shape, bounds and number of classes of the model's inputs; needed by `convert`."""
    executor: Executor | None = None
    """Computes conversions in parallel; None for this process. The caller closes it."""
    background: Background | None = None
    """Fits surrogates while rounds go on; with None they are fitted in the step. The caller
    closes it."""
    seed: int = 0
    """Seed of the method's random draws."""

    @property
    def chosen(self) -> Method:
        """The method as an object, even if it was given by name."""
        return as_method(self.method)
