"""A cohort's whole training as one CUDA graph.

A LeNet step on a GPU is a hundred small kernels, and launching them takes ten
times as long as running them. A graph is recorded for a shape of cohort when
that shape comes up for the second time; later rounds copy their numbers into
its buffers and replay it. The kernels and their order are those of the eager
form, so the numbers are the same.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

# Takes and returns flat lists of tensors; may use nothing else that changes.
TensorFn = Callable[[Sequence[Tensor]], list[Tensor]]

_WARM_UP = 3  # as PyTorch's notes on CUDA graphs advise
_KEPT_PER_MODEL = 8


class CapturedCall:
    """A recorded call of `fn`, with the buffers that its inputs are copied to."""

    def __init__(self, fn: TensorFn, inputs: Sequence[Tensor]) -> None:
        self._inputs = [t.clone() for t in inputs]
        device = inputs[0].device
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                fn(self._inputs)
        torch.cuda.current_stream(device).wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._outputs = fn(self._inputs)

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return what `fn` returns for `inputs`, which must have the recorded shapes."""
        for buffer, value in zip(self._inputs, inputs, strict=True):
            buffer.copy_(value)
        self._graph.replay()
        return [t.clone() for t in self._outputs]  # the next replay overwrites them


# Per model: None marks a shape that was seen once, or that cannot be recorded.
_shelves: WeakKeyDictionary[nn.Module, OrderedDict[Hashable, CapturedCall | None]] = (
    WeakKeyDictionary()
)


def call(model: nn.Module, key: Hashable, fn: TensorFn, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Call `fn`, from a recording where there is one.

    Args:
        model: Whose training this is; its recordings go when it goes.
        key: All besides the inputs' shapes that decides what `fn` does.
        fn: The function.
        inputs: Tensors on one CUDA device.
    """
    shelf = _shelves.setdefault(model, OrderedDict())
    full_key = (key, tuple((tuple(t.shape), t.dtype, t.device) for t in inputs))
    if full_key not in shelf:
        shelf[full_key] = None  # a shape that comes once is not worth recording
        return fn(inputs)
    shelf.move_to_end(full_key)
    recorded = shelf[full_key]
    if recorded is None:
        try:
            recorded = shelf[full_key] = CapturedCall(fn, inputs)
        except RuntimeError as error:
            logger.warning("No CUDA graph for this cohort, which will be slow: %s", error)
            return fn(inputs)
        if len(shelf) > _KEPT_PER_MODEL:
            shelf.popitem(last=False)
    return recorded(inputs)
