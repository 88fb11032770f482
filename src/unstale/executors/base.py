"""What an executor is.

Work is a function of something shared (the model, which stays the same for a
whole run) and of one item (a part of a round's requests). Whoever hands work
over splits it into as many items as there are workers; the items are the same
whichever executor does them, so executors with as many workers give the same
numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from unstale.errors import ConfigError, UnstaleError

T = TypeVar("T")
R = TypeVar("R")


class WorkerError(UnstaleError):
    """Workers were lost amid their work: nothing came back, and it can be tried again."""


@runtime_checkable
class Executor(Protocol):
    """Does items of work, one after the other or at the same time."""

    @property
    def workers(self) -> int:
        """How many items are worth handing over at once."""
        ...

    def map(self, work: Callable[[Any, T], R], shared: Any, items: Sequence[T]) -> list[R]:
        """Return `work(shared, item)` for each item, in their order.

        Args:
            work: A function of a module, so that other processes can import it.
            shared: What all items need; sent to each worker once while it stays the same.
            items: The parts of the work.

        Raises:
            WorkerError: If workers died. What `work` itself raises is raised as it is.
        """
        ...

    def close(self) -> None:
        """End the workers; the next `map` would start new ones."""
        ...


def check_workers(workers: int, threads: int | None) -> None:
    """Raise unless both are positive integers (or `threads` is left open)."""
    for name, value in (("workers", workers), ("threads", threads)):
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigError(f"Executor: `{name}` should be a positive integer. Found {value!r}.")
