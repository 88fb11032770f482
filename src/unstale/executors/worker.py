"""What happens inside a worker: bytes in, bytes out.

Everything travels as bytes that this library pickled itself, between processes
that it (or a Ray cluster of the same user) started; nothing that a client sent is
ever unpickled. Tensors go as plain bytes, not through shared memory, whose file
handles run out.
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
        ConfigError: If something in it exists in this process only.
    """
    try:
        return dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            "What workers get should be defined in a module that they can import. "
            f"Found something else: {error}. Move the model's class and the loss into a module."
        ) from error


def unpack(packed: bytes) -> Any:
    """Return the value that `pack` made bytes of."""
    return pickle.loads(packed)  # noqa: S301  our own bytes, see above


def threads_of(workers: int, threads: int | None) -> int:
    """Return the threads of one worker: its share of the cores where not given."""
    if threads is not None:
        return threads
    available = getattr(os, "sched_getaffinity", None)  # Linux only
    cores = len(available(0)) if available else os.cpu_count() or 1
    return max(1, cores // workers)


class Worker:
    """Holds what is shared, and does items."""

    def __init__(self, shared: bytes, threads: int) -> None:
        torch.set_num_threads(threads)
        self._packed: bytes | None = shared
        self._shared: Any = None

    def do(self, packed: bytes) -> bytes:
        """Do one packed `(work, item)`; return the packed `(result, None)` or `(None, error)`."""
        try:
            if self._packed is not None:
                # Here and not before: what goes wrong then reaches the one who asked.
                self._shared, self._packed = unpack(self._packed), None
            work, item = unpack(packed)
            return pack((work(self._shared, item), None))
        except Exception as error:
            return pack((None, _portable(error)))


def result_of(packed: bytes) -> Any:
    """Return what `Worker.do` answered, or raise what was raised there."""
    result, error = unpack(packed)
    if error is not None:
        raise error
    return result


def _portable(error: Exception) -> Exception:
    """Return the error, or its words where it cannot be made again elsewhere."""
    try:
        again = unpack(pickle.dumps(error))
    except Exception:
        again = None
    if type(again) is type(error):
        return error
    return UnstaleError(f"{type(error).__name__}: {error}")
