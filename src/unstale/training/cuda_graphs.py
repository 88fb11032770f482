"""CUDA graphs of calls that are repeated, each with every tensor that it reads.

A training step of a small model is a hundred or more small kernels, and launching them
one by one takes ten times as long as running them. A CUDA graph launches all kernels of
a call at once. It reads and writes memory by address and keeps none of it alive, so a
`Recording` owns all of it: copies of the inputs, into which later calls copy theirs, and
every other tensor that the call reads. The kernels and their order are those of the
eager call, so the numbers are the same.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from unstale.training.graph_recorder import Recorder, current_recorder
from unstale.training.tensor_fields import layout_of, tensors_of, with_tensors
from unstale.training.tensor_reads import tensors_read

log = logging.getLogger(__name__)

T = TypeVar("T")  # a dataclass of tensors, see unstale.training.tensor_fields

_WARM_UP = 3  # as PyTorch's notes on CUDA graphs advise
_REMEMBERED = 256  # layouts per model that came up once or cannot be recorded


class Recording(Generic[T]):
    """A recorded call with all tensors that it reads and writes.

    It does not hold the function: that leads to the model, which must be free to go.
    """

    def __init__(
        self, fn: Callable[[T], Sequence[Tensor]], inputs: T, recorder: Recorder, pool: Any
    ) -> None:
        self.inputs = with_tensors(inputs, [t.detach().clone() for t in tensors_of(inputs)])
        """The tensors that a replay reads as the inputs, and may change in place."""
        self.others: list[Tensor] = []
        """What a replay reads besides: tensors of the model or the loss, held by neither name."""
        own = self.inputs

        def rehearse() -> None:
            for _ in range(_WARM_UP - 1):
                fn(own)
                self.load(inputs)  # a call may change its inputs
            # In the last one, so that what the first ones have cached counts as read.
            self.others += tensors_read(lambda: fn(own), given=tensors_of(own))
            self.load(inputs)

        self.replay, self.outputs = recorder.record(
            rehearse, lambda: fn(own), tensors_of(own)[0].device, pool
        )
        self.in_use = Lock()

    def load(self, values: T) -> None:
        """Copy the values of other inputs of the same layout into this recording's."""
        for mine, theirs in zip(tensors_of(self.inputs), tensors_of(values), strict=True):
            mine.copy_(theirs)

    def tensors(self) -> list[Tensor]:
        """Return every tensor that a replay reads or returns; the recording keeps them alive."""
        return [*tensors_of(self.inputs), *self.others, *self.outputs]


class _Shelf:
    """The recordings of one model, the least recently used first."""

    def __init__(self) -> None:
        self.recordings: OrderedDict[Hashable, Recording[Any]] = OrderedDict()
        # Layouts without a recording: True where recording failed, False where it came up once.
        self.failed: OrderedDict[Hashable, bool] = OrderedDict()
        self.pool: Any = None


class GraphCache:
    """Keeps the recordings of each model, for as long as the model lives.

    A recording is reused where layout of the inputs, `key`, training modes of the model's
    layers and trained parameters are the same. Values of the inputs are copied in at every
    call; model buffers belong among them, so that a changed buffer is seen. Where a call
    cannot be recorded, or its recording is in use by another thread, it is run eagerly.

    Args:
        kept_per_model: How many recordings a model has at most; the least recently used goes.
    """

    def __init__(self, kept_per_model: int) -> None:
        self._kept = kept_per_model
        self._shelves: WeakKeyDictionary[nn.Module, _Shelf] = WeakKeyDictionary()

    def call(
        self, model: nn.Module, key: Hashable, fn: Callable[[T], Sequence[Tensor]], inputs: T
    ) -> list[Tensor]:
        """Return `fn(inputs)`, replayed from the second time on that a layout comes up.

        Args:
            model: The model that `fn` uses.
            key: All besides the inputs' layout that decides what `fn` does.
            fn: Returns new tensors and uses nothing that changes but its inputs.
            inputs: A dataclass of tensors on one device.
        """
        found = self._find(model, key, fn, inputs, at_once=False)
        if found is None or not found.in_use.acquire(blocking=False):
            return list(fn(inputs))
        try:
            found.load(inputs)
            found.replay()
            return [t.clone() for t in found.outputs]  # the next replay overwrites them
        finally:
            found.in_use.release()

    @contextmanager
    def borrow(
        self, model: nn.Module, key: Hashable, fn: Callable[[T], None], inputs: T
    ) -> Iterator[Recording[T] | None]:
        """Lend a recording of `fn`, which changes its inputs in place, to be replayed often.

        The recording holds the values of `inputs` and is recorded at the first call. What it
        computes should be read from `Recording.inputs` before the block ends. None is lent
        where the caller should call `fn(inputs)` itself.

        Args:
            model: The model that `fn` uses.
            key: All besides the inputs' layout that decides what `fn` does.
            fn: Changes its inputs in place and uses nothing else that changes.
            inputs: A dataclass of tensors on one device; they are not changed.
        """

        def in_place(values: T) -> Sequence[Tensor]:
            fn(values)
            return ()

        found = self._find(model, key, in_place, inputs, at_once=True)
        if found is None or not found.in_use.acquire(blocking=False):
            yield None
            return
        try:
            found.load(inputs)
            del inputs  # not needed any longer, and a caller may want the memory
            yield found
        finally:
            found.in_use.release()

    def recordings(self, model: nn.Module) -> list[Recording[Any]]:
        """Return the recordings of a model, the least recently used first."""
        shelf = self._shelves.get(model)
        return [] if shelf is None else list(shelf.recordings.values())

    def _find(
        self,
        model: nn.Module,
        key: Hashable,
        fn: Callable[[T], Sequence[Tensor]],
        inputs: T,
        *,
        at_once: bool,
    ) -> Recording[T] | None:
        """Return the recording for these inputs, made now if it is due; None to run eagerly."""
        recorder = current_recorder()
        if recorder is None or not recorder.takes(tensors_of(inputs)[0].device):
            return None
        if (shelf := self._shelves.get(model)) is None:
            shelf = self._shelves[model] = _Shelf()
        full_key = (key, layout_of(inputs), _switches(model))
        if (known := shelf.recordings.get(full_key)) is not None:
            shelf.recordings.move_to_end(full_key)
            return known
        failed = shelf.failed.get(full_key)
        if failed or (failed is None and not at_once):
            _remember(shelf, full_key, bool(failed))
            return None
        # Memory in which a replay leaves its outputs cannot be shared. Calls in place leave
        # nothing, and their replays follow one another on one stream: they share a pool.
        pool = None
        if at_once:
            pool = shelf.pool = shelf.pool or recorder.new_pool()
        try:
            made = Recording(fn, inputs, recorder, pool)
        except RuntimeError as error:
            log.warning("No CUDA graph for this call, which will be slow: %s", error)
            _remember(shelf, full_key, failed=True)
            return None
        shelf.recordings[full_key] = made
        shelf.failed.pop(full_key, None)
        if len(shelf.recordings) > self._kept:
            shelf.recordings.popitem(last=False)
        return made


def _switches(model: nn.Module) -> Hashable:
    """Return what can change in a model without any tensor changing."""
    return (
        tuple(module.training for module in model.modules()),
        tuple(p.requires_grad for p in model.parameters()),
    )


def _remember(shelf: _Shelf, key: Hashable, failed: bool) -> None:
    shelf.failed[key] = failed
    shelf.failed.move_to_end(key)
    if len(shelf.failed) > _REMEMBERED:
        shelf.failed.popitem(last=False)
