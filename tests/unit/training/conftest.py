"""A stand-in for CUDA graphs on a CPU: replays operations on memory that it does not keep."""

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class FreedMemoryError(RuntimeError):
    """A replay read what had been freed: on a GPU, garbage or a device-side assert."""


class Borrowed:
    """A tensor by its address: what lies there may be freed."""

    def __init__(self, tensor: Tensor):
        self.storage = StorageWeakRef(tensor.untyped_storage())
        self.dtype = tensor.dtype
        self.place = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())

    def tensor(self) -> Tensor:
        storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
        if storage is None:
            raise FreedMemoryError
        return torch.empty(0, dtype=self.dtype).set_(storage, *self.place)


def mapped(value, change):
    if isinstance(value, list | tuple):
        return type(value)(mapped(part, change) for part in value)
    if isinstance(value, dict):
        return {name: mapped(part, change) for name, part in value.items()}
    return change(value)


class Tape(TorchDispatchMode):
    """Operations with their arguments. As a graph's pool does, it keeps what they make alone."""

    def __init__(self):
        super().__init__()
        self.operations = []
        self.own = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        packed = self.pack(args), self.pack(kwargs)
        given = self.addresses((args, kwargs))
        result = func(*args, **kwargs)
        self.own |= self.addresses(result) - given
        self.operations.append((func, *packed, self.pack(result)))
        return result

    def pack(self, value):
        def change(leaf):
            if not isinstance(leaf, Tensor) or leaf.untyped_storage().data_ptr() in self.own:
                return leaf
            return Borrowed(leaf)

        return mapped(value, change)

    def addresses(self, value):
        found = set()

        def change(leaf):
            if isinstance(leaf, Tensor):
                found.add(leaf.untyped_storage().data_ptr())

        mapped(value, change)
        return found

    def replay(self):
        def change(leaf):
            return leaf.tensor() if isinstance(leaf, Borrowed) else leaf

        def flat(value):
            found = []
            mapped(value, lambda leaf: found.append(leaf) if isinstance(leaf, Tensor) else None)
            return found

        with torch.no_grad():
            for func, args, kwargs, result in self.operations:
                now = func(*mapped(args, change), **mapped(kwargs, change))
                for old, new in zip(flat(mapped(result, change)), flat(now), strict=True):
                    if old.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                        old.copy_(new)


class TapeRecorder:
    """Records calls on the CPU; counts them."""

    def __init__(self):
        self.recorded = 0

    def takes(self, device):
        return device.type == "cpu"

    def new_pool(self):
        return object()

    def record(self, rehearse, call, device, pool):
        rehearse()
        with Tape() as tape:
            outputs = call()
        self.recorded += 1
        return tape.replay, outputs


@pytest.fixture
def tape():
    return TapeRecorder()
