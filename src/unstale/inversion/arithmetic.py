"""How a GPU computes during a fit and a surrogate's training: precision and kernels.

PyTorch keeps both as switches of the whole process. They are set while at least one
thread computes here, and then put back as they were. Whatever else runs on the GPU in
the meantime, such as simulated clients beside a background fit, computes alike.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Any

import torch

PRECISIONS = ("float32", "tf32")


@contextmanager
def arithmetic(device: torch.device, precision: str) -> Iterator[None]:
    """Compute in this precision on a GPU, by kernels that give the same numbers every time.

    Has no effect on a CPU. Threads that want the same precision compute side by side; one
    that wants another waits until they are done.

    Args:
        device: Where the computation runs.
        precision: `float32`, or `tf32`: matrix products and convolutions round their factors
            to TensorFloat-32 (a mantissa of 10 bits instead of 23).
    """
    if device.type != "cuda":
        yield
        return
    _enter(precision)
    try:
        yield
    finally:
        _leave()


_changed = Condition()
_holders = 0
_held = ""
_before: list[tuple[Any, str, Any]] = []  # (where, switch, its value before)


def _enter(precision: str) -> None:
    global _holders, _held
    with _changed:
        _changed.wait_for(lambda: not _holders or _held == precision)
        if not _holders:
            for where, switch, value in _switches(precision):
                before = getattr(where, switch)
                # Not if it is so already: a switch that follows a general one would be fixed.
                if before != value:
                    setattr(where, switch, value)
                    _before.append((where, switch, before))
        _holders, _held = _holders + 1, precision


def _leave() -> None:
    global _holders
    with _changed:
        _holders -= 1
        if not _holders:
            while _before:
                setattr(*_before.pop())
            _changed.notify_all()


def _switches(precision: str) -> Sequence[tuple[Any, str, Any]]:
    """Return where a switch is, its name and its value.

    PyTorch 2.9 gave the switches of TF32 new names. The old ones warn in some versions, and
    reading them is an error where they and the new ones disagree.
    """
    cudnn: Any = torch.backends.cudnn
    matmul = torch.backends.cuda.matmul
    same = (cudnn, "deterministic", True)
    if hasattr(matmul, "fp32_precision"):
        value = "tf32" if precision == "tf32" else "ieee"
        return same, *((w, "fp32_precision", value) for w in (matmul, cudnn.conv, cudnn.rnn))
    wanted = precision == "tf32"
    return same, (matmul, "allow_tf32", wanted), (cudnn, "allow_tf32", wanted)
