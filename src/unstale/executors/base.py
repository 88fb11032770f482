"""The executor protocol, and the executor that computes in this process.

Work is a function of something shared (such as the model, which stays the same for a
whole run) and of one item. The caller splits its work into as many items as there are
workers. The items do not depend on the kind of executor, so executors with the same
number of workers give the same numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from unstale.errors import ConfigError, UnstaleError

T = TypeVar("T")
R = TypeVar("R")


class WorkerError(UnstaleError):
    """A worker died before it returned a result. The work can be tried again."""


@runtime_checkable
class Executor(Protocol):
    """Computes items of work, in sequence or in parallel."""

    @property
    def workers(self) -> int:
        """Number of workers: how many items are computed at the same time."""
        ...

    def map(self, work: Callable[[Any, T], R], shared: Any, items: Sequence[T]) -> list[R]:
        """Return `work(shared, item)` for each item, in their order.

        Args:
            work: A function that other processes can import.
            shared: What all items need; sent to each worker again only if it changes.
            items: The parts of the work.

        Raises:
            WorkerError: If a worker died. Exceptions of `work` itself are raised unchanged.
        """
        ...

    def close(self) -> None:
        """End the workers; a later `map` starts new ones."""
        ...


def check_workers(workers: int, threads: int | None) -> None:
    """Raise ConfigError unless both are positive integers; `threads` may be None."""
    for name, value in (("workers", workers), ("threads", threads)):
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigError(f"Executor: `{name}` should be a positive integer. Found {value!r}.")


class Inline:
    """Computes items one after the other in this process; the default executor.

    Args:
        workers: Number of items that work is split into. It affects results only by rounding;
            they equal those of any other executor with the same number of workers.

    Example:
        >>> Inline().map(lambda shared, item: shared + item, 10, [1, 2])
        [11, 12]
    """

    def __init__(self, workers: int = 1) -> None:
        check_workers(workers, None)
        self._workers = workers

    @property
    def workers(self) -> int:
        """Number of items that work is split into."""
        return self._workers

    def map(self, work: Callable[[Any, T], R], shared: Any, items: Sequence[T]) -> list[R]:
        """Return `work(shared, item)` for each item, in their order."""
        return [work(shared, item) for item in items]

    def close(self) -> None:
        """Do nothing."""
