"""Random generators that are seeded by a run's seed and the purpose of the draw.

Nothing in Unstale draws from a global generator. Code that needs randomness asks
for a generator by purpose, such as ``generator(seed, "client", "c07", 12)``. Its
stream depends on seed and purpose alone, not on what was drawn before. So results
do not change when a run is resumed, clients are reordered or a method is added.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: str | int) -> int:
    """Return the seed in [0, 2**63) that belongs to a purpose.

    Args:
        seed: The seed of the run.
        names: The purpose, such as ``"client", 7``.

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
    """Return a new torch generator, seeded by `derive(seed, *names)`."""
    import torch  # imported here, since it is slow and the other functions do not need it

    return torch.Generator(device=device).manual_seed(derive(seed, *names))


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a new NumPy generator, seeded by `derive(seed, *names)`."""
    return np.random.default_rng(derive(seed, *names))
