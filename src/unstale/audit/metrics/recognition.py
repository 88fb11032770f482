"""Whether a classifier recognises recovered inputs as what their originals are."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unstale.seeding import generator

_BATCH, _LR = 64, 1e-3


def trained_classifier(
    model: nn.Module, x: Tensor, y: Tensor, *, steps: int = 400, seed: int = 0
) -> nn.Module:
    """Return a copy of the model, trained from its present weights with Adam on `(x, y)`.

    The attacked clients' samples should not be among `x`: it is the judge of what is recovered.

    Args:
        model: The structure; it is not changed.
        x: Inputs.
        y: Class indices.
        steps: Steps of 64 samples each.
        seed: Draws the batches.
    """
    judge = copy.deepcopy(model).train()
    for p in judge.parameters():
        p.requires_grad_(True)
    optimizer = torch.optim.Adam(judge.parameters(), lr=_LR)
    rng = generator(seed, "audit", "classifier")
    for _ in range(steps):
        batch = torch.randint(len(x), (min(_BATCH, len(x)),), generator=rng).to(x.device)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(judge(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return judge.eval()


@torch.no_grad()
def recognised(judge: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Tell for each input whether the classifier gives it the class `y`.

    Example:
        >>> judge = nn.Identity()
        >>> recognised(judge, torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([0, 1]))
        tensor([ True, False])
    """
    found: Tensor = judge(x).argmax(-1) == y
    return found
