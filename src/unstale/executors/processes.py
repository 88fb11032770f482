"""`Processes`: an executor of worker processes on this machine."""

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

_worker: Worker | None = None  # set in worker processes only


def _begin(shared: bytes, threads: int) -> None:
    global _worker  # the only way to keep an object in a pool's process
    _worker = Worker(shared, threads)


def _do(packed: bytes) -> bytes:
    if _worker is None:
        raise WorkerError(
            "A worker process should be initialised before it gets work. Found one that is not."
        )
    return _worker.do(packed)


class Processes:
    """Computes items in worker processes, which start at the first `map` and stay alive.

    Processes are spawned, not forked, so a script that uses them needs the usual
    `if __name__ == "__main__":`. Each worker imports torch and takes that much memory.

    Args:
        workers: Number of processes.
        threads: Torch threads per process; by default an equal share of the cores.

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
        """Number of processes."""
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
        """End the processes; a later `map` starts new ones."""
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
