r"""The labels of surrogate data: which share each class has, guessed from a client's update.

With softmax and cross-entropy the gradient of the output layer's bias of class c is
$\bar p_c - s_c$: the mean probability that the model gives the class, minus the share of the
class in the data. So SGD moves the bias by a multiple of $s_c - \bar p_c$. The bias grows for
the classes that the client has more of than the model expects, and falls for the others:

$$ \hat s_c = \frac{\max(\Delta b_c, 0)}{\sum_k \max(\Delta b_k, 0)} $$

This is exact for a client of one class. Of a mix it sees the part that the model does not
predict yet; that the rest is divided likewise is an assumption. Without a bias, the sums of
the output layer's rows take its place: after a ReLU, features are not negative, so a row
changes in the direction of its class.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from unstale.errors import ConfigError
from unstale.params import Params


def guessed_shares(delta: Params, classes: int) -> list[float]:
    """Return the share of each class that a client's update suggests.

    The output layer is the last parameter that has a row for each class and was changed. The
    shares are even where there is none, or where no class gains.

    Args:
        delta: The client's update, parameters in the model's order.
        classes: The number of classes.

    Example:
        >>> guessed_shares({"weight": torch.zeros(3, 2), "bias": torch.tensor([3.0, -4, 1])}, 3)
        [0.75, 0.0, 0.25]
    """
    for p in reversed(list(delta.values())):
        if p.ndim and len(p) == classes and bool((p != 0).any()):
            gains = p.detach().double().reshape(classes, -1).sum(1).clamp_min(0)
            total = float(gains.sum())
            if 0 < total < math.inf:
                return [float(gain) / total for gain in gains]
            break
    return even_shares(classes)


def even_shares(classes: int) -> list[float]:
    """Return the same share for each class."""
    return [1 / classes] * classes


def labels_by(shares: Sequence[float], samples: int) -> Tensor:
    """Return so many labels in these shares, by largest remainders, in the order of classes.

    Example:
        >>> labels_by([0.5, 0.0, 0.25, 0.25], 6)
        tensor([0, 0, 0, 2, 2, 3])
    """
    wanted = [share / sum(shares) * samples for share in shares]
    counts = [math.floor(count) for count in wanted]
    left = samples - sum(counts)
    order = sorted(range(len(shares)), key=lambda c: (counts[c] - wanted[c], c))
    for c in order[:left]:
        counts[c] += 1
    return torch.arange(len(shares)).repeat_interleave(torch.tensor(counts))


def check_shares(shares: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Return shares by client as tuples of floats.

    Raises:
        ConfigError: If a client's are no numbers of at least 0, or are all 0.
    """
    found: dict[str, tuple[float, ...]] = {}
    for client, given in shares.items():
        numbers = tuple(float(share) for share in given)
        if not (numbers and min(numbers) >= 0 and 0 < sum(numbers) < math.inf):
            raise ConfigError(
                "surrogate: `shares` of a client should be numbers of at least 0, one for each "
                f"class, and not all 0. Found {list(given)!r} for '{client}'."
            )
        found[str(client)] = numbers
    return found
