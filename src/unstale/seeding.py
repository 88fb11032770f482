"""Randomness from names: one seed and a path of names give one generator.

Nothing in Unstale draws from a global generator. Whoever needs randomness asks
for a generator by what it is for, such as ``generator(seed, "client", "c07", 12)``.
The stream then depends on its purpose alone and not on what was drawn before,
so a resumed run, another order of clients or one method more changes nothing.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: str | int) -> int:
    """Return a seed in [0, 2**63) for the purpose that `names` spell.

    Example:
        >>> derive(0, "client", 7) == derive(0, "client", 7)
        True
        >>> derive(0, "client", 7) == derive(0, "client", 8)
        False
    """
    parts = [f"str:{n}" if isinstance(n, str) else f"int:{int(n)}" for n in names]
    text = "/".join([str(int(seed)), *parts])
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(
    seed: int, *names: str | int, device: "torch.device | str" = "cpu"
) -> "torch.Generator":
    """Return a fresh torch generator for the purpose that `names` spell."""
    import torch  # here: who only needs `derive` or NumPy's generator does not wait for it

    return torch.Generator(device=device).manual_seed(derive(seed, *names))


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a fresh NumPy generator for the purpose that `names` spell."""
    return np.random.default_rng(derive(seed, *names))
