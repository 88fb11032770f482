"""Work beside the rounds: handed over now, done meanwhile, looked at when it is ready."""

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
from unstale.executors.base import Executor
from unstale.executors.inline import Inline

# How long an interpreter that exits waits for the work that is being done.
_EXIT_SECONDS = 60.0
_lines: "weakref.WeakSet[_Line]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End what is being done: a thread amid torch's code could crash an interpreter that goes."""
    for line in list(_lines):
        line.close(_EXIT_SECONDS)


class Background:
    """Does work while its caller goes on, in the order in which it was given.

    The work is done in a thread of this process, or by the workers of an executor. The
    thread starts at the first use. What goes wrong (an exception, a worker that dies)
    is an outcome: the future tells it, and the next work is done.

    Args:
        executor: Who does the work; a thread of this process when not given. Rounds are
            disturbed the least by an executor of its own, such as `Processes(1)`. It is
            the caller's to close.
        threads: Torch's threads for work in this process; half of the caller's when not
            given.
        at_once: How much is taken at once; as much as there are workers when not given.
            More pays on a GPU, which fits several updates in little more than the time of
            one; all of them are ready when the last one is.
        max_waiting: How many updates of a server may await their fit; others are converted in
            the step.

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
        self._line: _Line | None = None

    def submit(
        self, work: Callable[[Any, Sequence[Any]], Sequence[Any]], shared: Any, item: Any
    ) -> Future[Any]:
        """Hand over an item of work and return at once.

        Args:
            work: Gets what is shared and some items, and returns a result for each; a
                function of a module where it is done by other processes.
            shared: What all items need.
            item: The item.

        Returns:
            The future of the item's result. It is cancelled by `close` if the work has
            not begun.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._line is None:
                self._line = self._started()
            self._line.put(_Job(work, shared, item, future))
        return future

    @property
    def waiting(self) -> int:
        """How many items are not done yet."""
        with self._lock:
            return 0 if self._line is None else self._line.waiting

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all is done, or for so many seconds; tell whether all is done."""
        with self._lock:
            line = self._line
        return line is None or line.wait(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Cancel what has not begun and wait for the rest, or for so many seconds.

        The next `submit` would start anew.
        """
        with self._lock:
            line, self._line = self._line, None
        if line is not None:
            line.close(timeout)

    def _started(self) -> "_Line":
        here = isinstance(self._executor, Inline)
        threads = (self._threads or max(1, torch.get_num_threads() // 2)) if here else None
        line = _Line(self._executor, self._at_once or self._executor.workers)
        line.start(threads)
        # The thread knows the line alone, so that a Background that nobody has any more goes,
        # and its thread with it.
        weakref.finalize(self, line.close, 0).atexit = False
        return line

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


class _Line:
    """The jobs that wait, and the thread that does them."""

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
                torch.get_num_threads()  # else the first operation would set it anew
                torch.set_num_threads(threads)
            ready.set()
            while group := self._take():
                _do(self._executor, group)
                with self._changed:
                    self._running = 0
                    self._changed.notify_all()

        self._thread = threading.Thread(target=run, name="unstale-background", daemon=True)
        self._thread.start()
        _lines.add(self)
        ready.wait()
        if threads is not None:
            # Torch's setting is each thread's own, but the last one made is also that of
            # threads to come.
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
        """Wait for jobs and return some that go together; none once it is closed."""
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
                self._changed.notify_all()  # all were cancelled: whoever waits may go on


def _do(executor: Executor, group: Sequence[_Job]) -> None:
    try:
        results = _results(executor, group)
    except BaseException as error:  # whatever it is: nobody else would tell who waits
        if len(group) == 1:
            group[0].future.set_exception(error)
            return
        # Whose fault it was is not known, and the others should not suffer from it.
        for job in group:
            _do(executor, [job])
        return
    for job, result in zip(group, results, strict=True):
        job.future.set_result(result)


def _results(executor: Executor, group: Sequence[_Job]) -> list[Any]:
    count = min(executor.workers, len(group))
    # Dealt out like cards, so that long and short ones are spread evenly.
    parts = [[job.item for job in group[i::count]] for i in range(count)]
    answers = executor.map(group[0].work, group[0].shared, parts)
    if [len(answer) for answer in answers] != [len(part) for part in parts]:
        raise UnstaleError("Work in the background should return one result for each item.")
    return [answers[i % count][i // count] for i in range(len(group))]
