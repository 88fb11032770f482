"""The executor that needs no other: everything here and now."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from unstale.executors.base import check_workers

T = TypeVar("T")
R = TypeVar("R")


class Inline:
    """Does items one after the other in this process; the default.

    Args:
        workers: Into how many items work is split. More than one makes no difference but
            to rounding, and gives exactly the numbers of another executor with as many.

    Example:
        >>> Inline().map(lambda shared, item: shared + item, 10, [1, 2])
        [11, 12]
    """

    def __init__(self, workers: int = 1) -> None:
        check_workers(workers, None)
        self._workers = workers

    @property
    def workers(self) -> int:
        """Into how many items work is split."""
        return self._workers

    def map(self, work: Callable[[Any, T], R], shared: Any, items: Sequence[T]) -> list[R]:
        """Return `work(shared, item)` for each item, in their order."""
        return [work(shared, item) for item in items]

    def close(self) -> None:
        """Do nothing: there is nobody to send home."""
