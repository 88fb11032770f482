r"""Short sketches of long vectors, from which inner products can still be read.

A count sketch adds the entries of a vector v into k places, each entry with a sign:

$$ s_p(v) = \sum_{i:\,h(i)=p} \sigma(i)\,v_i, \qquad p = 1 \dots k. $$

Place $h(i)$ and sign $\sigma(i) = \pm1$ are drawn once, the same for all vectors of one
length. The sketch is linear, and over the draw

$$ E[s(v)\cdot s(w)] = v\cdot w, \qquad
   E[(s(v)\cdot s(w) - v\cdot w)^2] \le \frac{|v|^2|w|^2 + (v\cdot w)^2}{k}: $$

for unit vectors at a right angle and k = 2048 the error is about 0.02.

References:
    Charikar, Chen and Farach-Colton, Finding Frequent Items in Data Streams.
"""

from functools import lru_cache

import torch
from torch import Tensor

from unstale.seeding import generator

SIZE = 2048


def sketch(vector: Tensor, size: int = SIZE) -> Tensor:
    """Return a vector's sketch `[size]`, or the vector itself if it is not longer than that.

    In double precision and on the CPU, where sums have one order: the same vector gives
    the same bits, wherever it lay.

    Example:
        >>> sketch(torch.tensor([3.0, 4.0]))
        tensor([3., 4.], dtype=torch.float64)
        >>> sketch(torch.ones(5000)).shape
        torch.Size([2048])
    """
    vector = vector.detach().cpu().double()
    if len(vector) <= size:
        return vector
    sums = torch.zeros(2 * size, dtype=torch.float64)
    sums.index_add_(0, signed_places(len(vector), size), vector)
    return sums[:size] - sums[size:]


@lru_cache(maxsize=4)
def signed_places(entries: int, size: int) -> Tensor:
    """Return each entry's place `[entries]`; `size` more where its sign is minus.

    Place and sign in one number: 4 bytes for each entry, once for all sketches.
    """
    rng = generator(0, "sketch", entries, size)
    return torch.randint(2 * size, (entries,), generator=rng, dtype=torch.int32)
