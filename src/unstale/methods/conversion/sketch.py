r"""Count sketches: short vectors that approximately keep inner products of long ones.

A count sketch adds the entries of a vector v into k buckets, each with a random sign:

$$ s_p(v) = \sum_{i:\,h(i)=p} \sigma(i)\,v_i, \qquad p = 1 \dots k. $$

The bucket $h(i)$ and the sign $\sigma(i) = \pm1$ are drawn once for all vectors of one
length. The sketch is linear, and in expectation over the draw

$$ E[s(v)\cdot s(w)] = v\cdot w, \qquad
   E[(s(v)\cdot s(w) - v\cdot w)^2] \le \frac{|v|^2|w|^2 + (v\cdot w)^2}{k}. $$

For orthogonal unit vectors and k = 2048 the error is about 0.02.

References:
    Charikar, Chen and Farach-Colton, Finding Frequent Items in Data Streams.
"""

from functools import lru_cache

import torch
from torch import Tensor

from unstale.seeding import generator

SIZE = 2048


def sketch(vector: Tensor, size: int = SIZE) -> Tensor:
    """Return the sketch `[size]` of a vector, or the vector itself if it is not longer.

    Computed in double precision on the CPU, where the order of summation is fixed: the
    result is the same to the bit for a vector from any device.

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
    """Return the bucket of each entry `[entries]`, plus `size` if its sign is −1.

    One int32 holds bucket and sign, so the cache takes 4 bytes per entry.
    """
    rng = generator(0, "sketch", entries, size)
    return torch.randint(2 * size, (entries,), generator=rng, dtype=torch.int32)
