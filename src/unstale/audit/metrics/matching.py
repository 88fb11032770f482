"""Which recovered input belongs to which original: one-to-one, and whether it is told from others.

The server does not know an order, so neither does the audit: recovered inputs are assigned to
originals such that the sum of errors is least, and no original is used twice. A blurred
average can therefore not stand for every sample of a client.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.audit.metrics.pictures import mean_squared_errors


@dataclass(frozen=True, slots=True)
class Match:
    """Pairs of recovered inputs and originals, those of the least error first."""

    recovered: tuple[int, ...]
    """The place of each pair's recovered input."""
    originals: tuple[int, ...]
    """The place of each pair's original."""

    def __len__(self) -> int:
        return len(self.recovered)


def match(errors: Tensor) -> Match:
    """Return the one-to-one assignment with the least sum of errors.

    Args:
        errors: The error of every pair `[recovered, originals]`. There are as many pairs as the
            smaller side has inputs.

    Example:
        >>> match(torch.tensor([[0.1, 0.2], [0.1, 0.9]]))
        Match(recovered=(1, 0), originals=(0, 1))
    """
    from scipy.optimize import linear_sum_assignment

    costs = errors.detach().cpu().numpy()
    rows, columns = linear_sum_assignment(costs)
    pairs = sorted(
        zip(rows.tolist(), columns.tolist(), strict=True), key=lambda p: (float(costs[p]), p)
    )
    return Match(tuple(r for r, _ in pairs), tuple(o for _, o in pairs))


def identified(recovered: Tensor, own: Tensor, others: Tensor, pairs: Match) -> Tensor:
    """Tell for each pair whether the recovered input finds its original among many.

    It does if no other sample, of the client or of `others`, is as near to it by mean squared
    error.

    Args:
        recovered: Recovered inputs in [0, 1].
        own: The client's samples, likewise.
        others: Samples that the client does not hold.
        pairs: The one-to-one match of `recovered` and `own`.

    Example:
        >>> own, others = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.4]])
        >>> identified(torch.tensor([[0.1], [0.5]]), own, others, Match((0, 1), (0, 1)))
        tensor([ True, False])
    """
    chosen = recovered[list(pairs.recovered)]
    errors = mean_squared_errors(chosen, torch.cat([own, others.to(own)]))
    rows = torch.arange(len(pairs))
    mine = errors[rows, list(pairs.originals)]
    rest = errors.clone()
    rest[rows, list(pairs.originals)] = float("inf")
    return mine < rest.amin(1)
