"""The worker of `Processes` and `OnRay`, and how work and results are serialised.

Only bytes that this library pickled itself are unpickled, between processes that it (or
a Ray cluster of the same user) started; data from clients is never unpickled. Tensors
are sent as plain bytes instead of by shared memory, which can run out of file handles.
"""

import os
import pickle
from collections.abc import Callable
from typing import Any

import torch

from unstale.errors import ConfigError, UnstaleError

Dumps = Callable[[Any], bytes]


def pack(value: Any, dumps: Dumps = pickle.dumps) -> bytes:
    """Return a value as bytes.

    Raises:
        ConfigError: If a part of it cannot be pickled.
    """
    try:
        return dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            "What workers get should be defined in a module that they can import. "
            f"Found: {error}. Move the model's class and the loss into a module."
        ) from error


def unpack(packed: bytes) -> Any:
    """Return the value from the result of `pack`."""
    return pickle.loads(packed)  # noqa: S301  our own bytes, see the module's docstring


def threads_of(workers: int, threads: int | None) -> int:
    """Return the number of threads per worker; by default an equal share of the cores."""
    if threads is not None:
        return threads
    available = getattr(os, "sched_getaffinity", None)  # Linux only
    cores = len(available(0)) if available else os.cpu_count() or 1
    return max(1, cores // workers)


class Worker:
    """Holds the shared object of a worker process and computes items.

    Args:
        shared: The shared object, as `pack` returned it.
        threads: Number of torch threads.
    """

    def __init__(self, shared: bytes, threads: int) -> None:
        torch.set_num_threads(threads)
        self._packed: bytes | None = shared
        self._shared: Any = None

    def do(self, packed: bytes) -> bytes:
        """Compute a packed `(work, item)`; return packed `(result, None)` or `(None, error)`."""
        try:
            if self._packed is not None:
                # Unpacked here instead of in __init__, so that an error reaches the caller.
                self._shared, self._packed = unpack(self._packed), None
            work, item = unpack(packed)
            return pack((work(self._shared, item), None))
        except Exception as error:
            return pack((None, _portable(error)))


def result_of(packed: bytes) -> Any:
    """Return the result from `Worker.do`, or raise the exception that was raised there."""
    result, error = unpack(packed)
    if error is not None:
        raise error
    return result


def _portable(error: Exception) -> Exception:
    """Return the exception, or an UnstaleError with its text if it cannot be pickled."""
    try:
        again = unpack(pickle.dumps(error))
    except Exception:
        again = None
    if type(again) is type(error):
        return error
    return UnstaleError(f"{type(error).__name__}: {error}")
