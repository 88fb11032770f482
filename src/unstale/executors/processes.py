"""The executor on one machine: processes of our own."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, TypeVar

from unstale.executors.base import WorkerError, check_workers
from unstale.executors.worker import Worker, pack, result_of, threads_of

T = TypeVar("T")
R = TypeVar("R")

_worker: Worker | None = None  # this process's, where it is a worker


def _begin(shared: bytes, threads: int) -> None:
    global _worker  # a pool's function has no other place for what its process holds
    _worker = Worker(shared, threads)


def _do(packed: bytes) -> bytes:
    if _worker is None:
        raise WorkerError("A worker should have begun before it is given work.")
    return _worker.do(packed)


class Processes:
    """Does items in processes of its own, which start at the first use and stay.

    They start afresh (spawned, not forked), so a script that uses them needs the usual
    `if __name__ == "__main__":`. A worker takes the memory of a Python with torch.

    Args:
        workers: How many processes.
        threads: Threads of each; its share of the cores when not given.

    Example:
        >>> with Processes(workers=4) as executor:  # nothing starts before the first use
        ...     executor.workers
        4
    """

    def __init__(self, workers: int = 2, threads: int | None = None) -> None:
        check_workers(workers, threads)
        self._workers = workers
        self._threads = threads_of(workers, threads)
        self._pool: ProcessPoolExecutor | None = None
        self._shared = b""

    @property
    def workers(self) -> int:
        """How many processes there are."""
        return self._workers

    def map(self, work: Callable[[Any, T], R], shared: Any, items: Sequence[T]) -> list[R]:
        """Return `work(shared, item)` for each item, in their order."""
        pool = self._pool_for(pack(shared))
        packed = [pack((work, item)) for item in items]
        try:
            answers = list(pool.map(_do, packed))
        except BrokenProcessPool as error:
            self.close()
            raise WorkerError(f"A worker process died: {error}") from error
        return [result_of(answer) for answer in answers]

    def _pool_for(self, shared: bytes) -> ProcessPoolExecutor:
        if self._pool is not None and shared != self._shared:
            self.close()
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(shared, self._threads),
            )
            self._shared = shared
        return self._pool

    def close(self) -> None:
        """End the processes; the next `map` would start new ones."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
