"""`Background`: work that is computed while rounds go on."""

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from unstale.errors import ConfigError, UnstaleError
from unstale.executors.base import Executor, Inline

# How long the interpreter waits at exit for work that is running.
_EXIT_SECONDS = 60.0
_queues: "weakref.WeakSet[_Queue]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Wait for running work: a thread inside torch's code could crash an exiting interpreter."""
    for queue in list(_queues):
        queue.close(_EXIT_SECONDS)


class Background:
    """A queue of work that is computed in the background, in the order of submission.

    The work runs in a thread of this process, or on the workers of an executor. The thread
    starts at the first `submit`. If an item fails (an exception, a worker that dies), its
    future has the exception, and the next items are computed as usual.

    Args:
        executor: Computes the work; by default a thread of this process. An executor of its
            own, such as `Processes(1)`, slows rounds down the least. The caller closes it.
        threads: Number of torch threads for work in this process; by default half of the
            caller's.
        at_once: Number of items that are computed in one batch; by default the number of
            workers. More pays off on a GPU, which fits several updates in little more than
            the time of one; the results of a batch are ready together.
        max_waiting: Maximum number of a server's updates that await their fit; further ones
            are converted in the step.

    Example:
        >>> def doubled(shared, items):
        ...     return [shared + 2 * item for item in items]
        >>> with Background() as background:
        ...     future = background.submit(doubled, 100, 4)
        ...     background.wait(timeout=10), future.result()
        (True, 108)
    """

    def __init__(
        self,
        executor: Executor | None = None,
        threads: int | None = None,
        at_once: int | None = None,
        max_waiting: int = 100,
    ) -> None:
        for name, value in (
            ("threads", threads),
            ("at_once", at_once),
            ("max_waiting", max_waiting),
        ):
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigError(
                    f"Background: `{name}` should be a positive integer. Found {value!r}."
                )
        if executor is not None and not isinstance(executor, Executor):
            raise ConfigError(
                "Background: `executor` should have `workers`, `map` and `close`, as "
                f"Processes and OnRay do. Found {executor!r}."
            )
        self.max_waiting = max_waiting
        self._executor = executor if executor is not None else Inline()
        self._threads = threads
        self._at_once = at_once
        self._lock = threading.Lock()
        self._queue: _Queue | None = None

    def submit(
        self, work: Callable[[Any, Sequence[Any]], Sequence[Any]], shared: Any, item: Any
    ) -> Future[Any]:
        """Add an item to the queue and return immediately.

        Args:
            work: Called as `work(shared, items)`; returns one result per item. For other
                processes it must be a function that they can import.
            shared: What all items need, such as the model.
            item: The item.

        Returns:
            The future of the item's result. `close` cancels it if the work has not started.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._queue is None:
                self._queue = self._started()
            self._queue.put(_Job(work, shared, item, future))
        return future

    @property
    def waiting(self) -> int:
        """Number of items that are queued or running."""
        with self._lock:
            return 0 if self._queue is None else self._queue.waiting

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for all items, at most `timeout` seconds; return whether all are done."""
        with self._lock:
            queue = self._queue
        return queue is None or queue.wait(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Cancel queued items and wait for running ones, at most `timeout` seconds.

        A later `submit` starts a new thread.
        """
        with self._lock:
            queue, self._queue = self._queue, None
        if queue is not None:
            queue.close(timeout)

    def _started(self) -> "_Queue":
        here = isinstance(self._executor, Inline)
        threads = (self._threads or max(1, torch.get_num_threads() // 2)) if here else None
        queue = _Queue(self._executor, self._at_once or self._executor.workers)
        queue.start(threads)
        # The thread refers to the queue only, so that an unused Background is collected and its
        # thread ends.
        weakref.finalize(self, queue.close, 0).atexit = False
        return queue

    def __enter__(self) -> "Background":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    work: Callable[[Any, Sequence[Any]], Sequence[Any]]
    shared: Any
    item: Any
    future: Future[Any]

    def goes_with(self, other: "_Job") -> bool:
        return self.work is other.work and self.shared is other.shared


class _Queue:
    """The queued jobs, and the thread that computes them."""

    def __init__(self, executor: Executor, at_once: int) -> None:
        self._executor = executor
        self._at_once = at_once
        self._jobs: deque[_Job] = deque()
        self._running = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self, threads: int | None) -> None:
        ready = threading.Event()
        before = torch.get_num_threads() if threads is not None else 0

        def run() -> None:
            if threads is not None:
                torch.get_num_threads()  # initialises it, or the first operation would reset it
                torch.set_num_threads(threads)
            ready.set()
            while group := self._take():
                _do(self._executor, group)
                with self._changed:
                    self._running = 0
                    self._changed.notify_all()

        self._thread = threading.Thread(target=run, name="unstale-background", daemon=True)
        self._thread.start()
        _queues.add(self)
        ready.wait()
        if threads is not None:
            # The setting belongs to each thread, but new threads inherit the last one set.
            torch.set_num_threads(before)

    def put(self, job: _Job) -> None:
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._jobs) + self._running

    def wait(self, timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs and not self._running, timeout)

    def close(self, timeout: float | None) -> None:
        with self._changed:
            self._closed = True
            dropped = list(self._jobs)
            self._jobs.clear()
            self._changed.notify_all()
        for job in dropped:
            job.future.cancel()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _take(self) -> list[_Job]:
        """Wait for jobs and return some that can be computed in one batch; none when closed."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if self._closed:
                    return []
                group = [self._jobs.popleft()]
                while (
                    self._jobs and len(group) < self._at_once and self._jobs[0].goes_with(group[0])
                ):
                    group.append(self._jobs.popleft())
                group = [job for job in group if job.future.set_running_or_notify_cancel()]
                if group:
                    self._running = len(group)
                    return group
                self._changed.notify_all()  # all were cancelled: wakes up `wait`


def _do(executor: Executor, group: Sequence[_Job]) -> None:
    try:
        results = _results(executor, group)
    except BaseException as error:  # any exception belongs to the future, or its owner hangs
        if len(group) == 1:
            group[0].future.set_exception(error)
            return
        # It is not known which item failed, so each is computed by itself.
        for job in group:
            _do(executor, [job])
        return
    for job, result in zip(group, results, strict=True):
        job.future.set_result(result)


def _results(executor: Executor, group: Sequence[_Job]) -> list[Any]:
    count = min(executor.workers, len(group))
    # Round robin, so that items of one kind are spread over the workers.
    parts = [[job.item for job in group[i::count]] for i in range(count)]
    answers = executor.map(group[0].work, group[0].shared, parts)
    if [len(answer) for answer in answers] != [len(part) for part in parts]:
        raise UnstaleError("Work in the background should return one result for each item.")
    return [answers[i % count][i // count] for i in range(len(group))]
