"""How a call is recorded: as a CUDA graph, or not at all.

Kept apart from `unstale.training.cuda_graphs`, which owns the recordings, so that tests
can put a stand-in here where there is no GPU, and compare with eager calls where there is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import Tensor


class Recorder(Protocol):
    """A backend that records calls; `CudaRecorder`, or a stand-in for tests without a GPU."""

    def takes(self, device: torch.device) -> bool:
        """Tell whether calls on this device are recorded."""
        ...

    def new_pool(self) -> Any:
        """Return a memory pool that several recordings may share."""
        ...

    def record(
        self,
        rehearse: Callable[[], object],
        call: Callable[[], Sequence[Tensor]],
        device: torch.device,
        pool: Any,
    ) -> tuple[Callable[[], None], Sequence[Tensor]]:
        """Rehearse, then record `call`; return its replay and the tensors that it returned."""
        ...


class CudaRecorder:
    """Records a call as a CUDA graph, after a rehearsal on the same side stream."""

    def takes(self, device: torch.device) -> bool:
        """Tell whether this is a CUDA device."""
        return device.type == "cuda"

    def new_pool(self) -> Any:
        """Return the handle of a new pool."""
        return torch.cuda.graph_pool_handle()

    def record(
        self,
        rehearse: Callable[[], object],
        call: Callable[[], Sequence[Tensor]],
        device: torch.device,
        pool: Any,
    ) -> tuple[Callable[[], None], Sequence[Tensor]]:
        """Rehearse and capture on a side stream."""
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        try:
            with torch.cuda.stream(stream):
                rehearse()
            torch.cuda.current_stream(device).wait_stream(stream)
            with torch.cuda.graph(
                graph,
                pool=pool,
                stream=stream,
                capture_error_mode="thread_local",  # other threads may use the device meanwhile
            ):
                outputs = call()
        finally:  # after a failure, too, nothing may be freed that the side stream still uses
            torch.cuda.synchronize(device)
        return graph.replay, outputs


_CUDA = CudaRecorder()
_recorder: ContextVar[Recorder | None] = ContextVar("_recorder", default=_CUDA)


def current_recorder() -> Recorder | None:
    """Return the backend in use: CUDA's, unless `recording_by` says otherwise."""
    return _recorder.get()


@contextmanager
def recording_by(recorder: Recorder | None) -> Iterator[None]:
    """Record by another backend within this block; by None: run every call eagerly.

    Example:
        >>> with recording_by(None):  # to compare with the recorded numbers, or to debug
        ...     pass
    """
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)
