"""CPU threads of a run: one, unless somebody says otherwise.

The last bits of sums depend on the number of threads, also in models of two small layers, and
whole runs depend on these bits. So the number is no matter of the machine: with torch's own choice,
which is the number of its cores, a seed would give other numbers on another machine. One thread is
also what is fast where operations are small or the machine is busy, since threads wait for each
other after each operation (`benchmarks/threads.py`). Cores are used by `--jobs`, which changes no
number.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from unstale.run_folder.folder import RunFolder

DEFAULT = 1
"""Threads where neither the experiment nor the command says how many."""


def threads_of(wanted: int | None, folder: RunFolder | None = None) -> int:
    """Return the number of threads of a run.

    Args:
        wanted: What the experiment says; None if it does not.
        folder: Its run folder. A run goes on with as many threads as it began with.
    """
    if wanted is None and folder is not None and folder.is_run:
        began = folder.read_json(folder.path / "environment.json").get("threads")
        if type(began) is int and began >= 1:
            return began
    return wanted or DEFAULT


@contextmanager
def cpu_threads(number: int) -> Iterator[None]:
    """Have torch use so many threads, and afterwards as many as before.

    Example:
        >>> before = torch.get_num_threads()
        >>> with cpu_threads(before + 1):
        ...     torch.get_num_threads() - before
        1
        >>> torch.get_num_threads() - before
        0
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
