"""A whole iteration as one CUDA graph.

An iteration is thousands of small kernels, and launching them one by one takes
ten times as long as running them. A graph is recorded once for each shape of
problem and kept with its model; a solve copies its numbers into the graph's
buffers and replays it.
"""

import logging
from collections import OrderedDict
from collections.abc import Hashable
from weakref import WeakKeyDictionary

import torch
from torch import nn

from unstale.inversion.descent import Buffers, Descent

log = logging.getLogger(__name__)

_WARM_UP = 3  # as PyTorch's notes on CUDA graphs advise
_KEPT_PER_MODEL = 16


class Captured:
    """A recorded iteration with the buffers that it works on."""

    def __init__(self, descent: Descent, buffers: Buffers, pool: object) -> None:
        self.buffers = buffers
        # The graph reads these by address and does not keep them itself. (Not the descent:
        # it leads to the model, which must be free to go.)
        self._constants = descent.constants()
        self._graph = torch.cuda.CUDAGraph()
        before = [t.clone() for t in buffers.tensors()]
        device = buffers.rows.device
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        try:
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP):
                    descent(buffers)
                    buffers.iteration.zero_()
            torch.cuda.current_stream(device).wait_stream(stream)
            with torch.cuda.graph(
                self._graph,
                pool=pool,  # type: ignore[arg-type]
                stream=stream,
                # Other threads may use the device meanwhile.
                capture_error_mode="thread_local",
            ):
                descent(buffers)
        finally:  # the rehearsal must leave no trace, whether or not it went well
            torch.cuda.synchronize(device)
            for tensor, value in zip(buffers.tensors(), before, strict=True):
                tensor.copy_(value)

    def __call__(self) -> None:
        """Do one iteration on `buffers`."""
        self._graph.replay()


class _Shelf:
    """The graphs of one model, the last used last.

    They share one pool of memory: nothing in it outlives a replay, since all that a
    solve reads lies in buffers outside, and replays follow one another on one stream.
    """

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()
        # None stands for a problem that could not be captured.
        self.graphs: OrderedDict[Hashable, Captured | None] = OrderedDict()


_shelves: WeakKeyDictionary[nn.Module, _Shelf] = WeakKeyDictionary()


def captured(
    model: nn.Module, key: Hashable, descent: Descent, buffers: Buffers
) -> Captured | None:
    """Return a graph that holds the numbers of `buffers`, or None if none can be made.

    Args:
        model: The model whose training is recorded; its graphs go when it goes.
        key: All besides the buffers' shapes that the recorded kernels depend on.
        descent: The iteration.
        buffers: The problem. The graph may work on these, or on a copy.
    """
    if (shelf := _shelves.get(model)) is None:
        shelf = _shelves[model] = _Shelf()
    shapes = tuple((tuple(t.shape), t.dtype, t.device) for t in buffers.tensors())
    # Buffers of the model and switches of its layers are part of what was recorded.
    state = tuple((b.data_ptr(), b._version) for b in model.buffers())
    modes = tuple(m.training for m in model.modules())
    full_key = (key, shapes, state, modes)
    if full_key in shelf.graphs:
        shelf.graphs.move_to_end(full_key)
        found = shelf.graphs[full_key]
        if found is not None:
            found.buffers.copy_from(buffers)
        return found
    made: Captured | None
    try:
        made = Captured(descent, buffers, shelf.pool)
    except RuntimeError as error:
        log.warning("No CUDA graph for this inversion, which will be slow: %s", error)
        made = None
    shelf.graphs[full_key] = made
    if len(shelf.graphs) > _KEPT_PER_MODEL:
        shelf.graphs.popitem(last=False)
    return made
