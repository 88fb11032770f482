"""`OnRay`: an executor of Ray actors, on one or several machines. Needs `unstale[ray]`."""

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from unstale.errors import ConfigError
from unstale.executors.base import WorkerError, check_workers
from unstale.executors.worker import Worker, pack, result_of, threads_of

T = TypeVar("T")
R = TypeVar("R")


class OnRay:
    """Computes items in Ray actors, which start at the first `map` and stay alive.

    If Ray is already initialised in this process, it is used. Otherwise the executor joins
    the cluster at `address` or, without one, starts a local Ray until it is closed, without
    dashboard and usage statistics.

    Args:
        workers: Number of actors.
        address: Address of a running cluster, such as `auto` or `ray://host:10001`.
        threads: Threads (and Ray CPUs) per actor; by default 1 on a cluster, and an equal
            share of the cores on a local Ray.
        gpus: Ray GPUs per actor, such as 0.5, if the server's weights are on a GPU.

    Example:
        >>> with OnRay(workers=4) as executor:  # nothing starts before the first use
        ...     executor.workers
        4
    """

    def __init__(
        self,
        workers: int = 2,
        address: str | None = None,
        threads: int | None = None,
        gpus: float = 0.0,
    ) -> None:
        check_workers(workers, threads)
        if not gpus >= 0:
            raise ConfigError(f"OnRay: `gpus` should be at least 0. Found {gpus!r}.")
        self._workers = workers
        self._address = address
        self._threads = 1 if address and threads is None else threads_of(workers, threads)
        self._gpus = gpus
        self._actors: list[Any] = []
        self._shared = b""
        self._started = False

    @property
    def workers(self) -> int:
        """Number of actors."""
        return self._workers

    def map(self, work: Callable[[Any, T], R], shared: Any, items: Sequence[T]) -> list[R]:
        """Return `work(shared, item)` for each item, in their order."""
        ray = _ray()
        self._connect(ray)
        # cloudpickle can also pickle what is defined in the user's script.
        dumps = ray.cloudpickle.dumps
        actors = self._actors_for(ray, pack(shared, dumps))
        packed = [pack((work, item), dumps) for item in items]
        try:
            waiting = [actors[i % len(actors)].do.remote(p) for i, p in enumerate(packed)]
            answers = ray.get(waiting)
        except ray.exceptions.RayError as error:
            self._dismiss(ray)
            raise WorkerError(f"A Ray worker died: {str(error).splitlines()[0]}") from error
        return [result_of(answer) for answer in answers]

    def _connect(self, ray: Any) -> None:
        if ray.is_initialized():
            return
        if self._address is not None:
            ray.init(address=self._address, log_to_driver=False)
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(
                address="local",
                num_cpus=self._workers * self._threads,
                include_dashboard=False,
                log_to_driver=False,
                _node_ip_address="127.0.0.1",  # otherwise Ray's ports are open to the network
            )
        self._started = True

    def _actors_for(self, ray: Any, shared: bytes) -> list[Any]:
        if shared != self._shared:
            self._dismiss(ray)
        if not self._actors:
            remote = ray.remote(num_cpus=self._threads, num_gpus=self._gpus)(Worker)
            held = ray.put(shared)  # stored once per machine, not per actor
            self._actors = [remote.remote(held, self._threads) for _ in range(self._workers)]
            self._shared = shared
        return self._actors

    def _dismiss(self, ray: Any) -> None:
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def close(self) -> None:
        """End the actors, and Ray if this executor started it."""
        if not self._actors and not self._started:
            return
        ray = _ray()
        if ray.is_initialized():
            self._dismiss(ray)
            if self._started:
                ray.shutdown()
        self._actors, self._started = [], False

    def __enter__(self) -> "OnRay":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            "OnRay needs Ray, which is not installed. Run: pip install 'unstale[ray]'."
        ) from error
    return ray
