"""Membership: is recovered data nearer to what a client trained on than to what it did not?

A candidate's score is how near the nearest recovered input is. Members are the client's samples,
the others are held-out samples of the same class, so that knowing the class gains nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.audit.metrics.pictures import mean_squared_errors

FALSE_POSITIVES = 0.01


@dataclass(frozen=True, slots=True)
class Membership:
    """How well members can be told from others by their scores."""

    auc: float
    """The area under the ROC curve: 0.5 is chance, 1 tells all of them."""
    true_positives: float
    """The share of members above a threshold that at most 1 % of the others pass."""
    members: int
    """The number of members that were scored."""
    others: int
    """The number of others."""


def nearness(candidates: Tensor, recovered: Tensor) -> Tensor:
    """Return the score of each candidate: minus its error to the nearest recovered input.

    Example:
        >>> nearness(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [0.5]]))
        tensor([-0.0000, -0.2500])
    """
    return -mean_squared_errors(candidates, recovered).amin(1)


def membership(groups: Sequence[tuple[Tensor, Tensor]]) -> Membership:
    r"""Return how well scores tell members from others.

    $$ \text{AUC} = P(s_m > s_o) + \tfrac12 P(s_m = s_o) $$

    In each group the others set the threshold of that group; the results are means over all
    members. With fewer than 100 others no one of them may pass, which is stricter than 1 %.

    Args:
        groups: The scores of members and of others, for each client and class.

    Example:
        >>> found = membership([(torch.tensor([3.0, 1.0]), torch.tensor([0.0, 2.0]))])
        >>> found.auc, found.true_positives
        (0.75, 0.5)
    """
    used = [(m.double(), o.double()) for m, o in groups if len(m) and len(o)]
    members = sum(len(m) for m, _ in used)
    if not members:
        return Membership(math.nan, math.nan, 0, 0)
    wins = passed = 0.0
    for own, others in used:
        above = (own[:, None] > others).double() + 0.5 * (own[:, None] == others).double()
        wins += float(above.mean(1).sum())
        allowed = int(FALSE_POSITIVES * len(others))
        threshold = others.sort(descending=True).values[allowed]
        passed += float((own > threshold).sum())
    return Membership(
        wins / members, passed / members, members, sum(len(others) for _, others in used)
    )


def by_class(
    recovered: Tensor, own: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return the scores of a client's samples and of held-out ones, class by class.

    Args:
        recovered: Recovered inputs in [0, 1].
        own: The client's inputs and labels.
        others: Held-out inputs and labels.
    """
    mine, rest = nearness(own[0], recovered), nearness(others[0], recovered)
    classes = torch.unique(own[1]).tolist()
    return [(mine[own[1] == c], rest[others[1] == c]) for c in classes]
