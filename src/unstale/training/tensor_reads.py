"""Which tensors a call reads besides those that it is given.

A CUDA graph reads tensors by address and keeps none of them alive. Inputs are known, but
a model may also read a tensor that is neither a parameter nor a buffer, and a loss may
have class weights. Watching every operation of one call finds those too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def tensors_read(call: Callable[[], object], given: Iterable[Tensor]) -> list[Tensor]:
    """Run `call` and return what it reads that is neither in `given` nor made by it.

    Example:
        >>> import torch
        >>> x, hidden = torch.ones(2), torch.ones(2)
        >>> tensors_read(lambda: (x * 2) @ hidden, given=[x])
        [tensor([1., 1.])]
    """
    watch = _Watch(given)
    with watch:
        call()
    return list(watch.found.values())


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells by their memory which tensors of an operation existed before the call."""

    def __init__(self, given: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known = {_address(t) for t in given}
        # Memory of the call's own results. It may be freed and used again within the call;
        # what existed before the call lives through it and lies elsewhere.
        self._made: set[int] = set()
        self.found: dict[int, Tensor] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        for tensor in _tensors((args, tuple(kwargs.values()))):
            address = _address(tensor)
            if address not in self._known and address not in self._made:
                self.found.setdefault(address, tensor.detach())
        result = func(*args, **kwargs)
        for tensor in _tensors(result):
            address = _address(tensor)
            if address not in self._known and address not in self.found:  # not a view of those
                self._made.add(address)
        return result


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.numel():  # one without entries has no memory
            yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
