"""Hard labels: each sample of a surrogate has one class, as a client's samples do.

A soft label explains an update as well as a hard one, and may carry over worse: where a model has
learned a client's sample, its gradient vanishes, since prediction and label agree; that of a soft
label stays, and pulls the model back. So a cold fit first finds by soft labels how many samples of
each class there are, and then begins anew with so many samples of each, whose labels no longer
change.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from unstale.inversion.surrogate import Surrogate
from unstale.seeding import generator

# The logit of a sample's class; e^-12 of the label's mass is left for each of the others.
_HARD = 12.0
# The same where a label is to be learned again.
_SOFT = 2.0


def whole_counts(shares: Tensor, total: int) -> Tensor:
    """Return whole numbers in proportion to shares that add up to `total`.

    Example:
        >>> whole_counts(torch.tensor([0.5, 0.3, 0.2]), 4).tolist()
        [2, 1, 1]
    """
    wanted = shares.double() * total
    counts = wanted.floor().long()
    rest = (wanted - counts).sort(descending=True, stable=True).indices
    counts[rest[: total - int(counts.sum())]] += 1
    return counts


def hard_logits(classes: Tensor, num_classes: int) -> Tensor:
    """Return label logits of these classes `[samples, num_classes]`.

    Example:
        >>> hard_logits(torch.tensor([1]), 3).softmax(-1).round()
        tensor([[0., 1., 0.]])
    """
    return _HARD * F.one_hot(classes, num_classes).float()


def softened(surrogate: Surrogate) -> Surrogate:
    """Return the surrogate with labels that favour the same classes and can be changed again.

    Example:
        >>> softened(Surrogate(torch.zeros(1, 1), torch.tensor([[3.0, 9.0, -1.0]]))).y_logits
        tensor([[-2.,  2., -2.]])
    """
    logits = surrogate.y_logits
    below = logits - logits.amax(-1, keepdim=True)
    return Surrogate(surrogate.x, (below + _SOFT).clamp(min=-_SOFT))


def hard_start(start: Surrogate, fitted: Surrogate, seed: int) -> Surrogate:
    """Return where a fit with hard labels begins.

    Args:
        start: The inputs to begin at. Samples keep the class that they favour there, the first
            ones first, as far as there are so many of it.
        fitted: The sum of its labels says how many samples each class has: what a fit with soft
            labels found, or the client's last surrogate.
        seed: Decides which of the other samples has which class, so that batches have several.

    Example:
        >>> shares = Surrogate(torch.zeros(4, 1), torch.tensor([0.75, 0.25]).log().expand(4, 2))
        >>> hard_start(Surrogate(torch.zeros(4, 1), torch.zeros(4, 2)), shares, 0).labels.sum(0)
        tensor([3.0000, 1.0000])
    """
    left = whole_counts(fitted.labels.double().mean(0).cpu(), len(start))
    classes = start.y_logits.argmax(-1).cpu()
    others = torch.ones(len(start), dtype=torch.bool)
    for klass, count in enumerate(left.tolist()):
        keep = (classes == klass).nonzero().squeeze(1)[:count]
        others[keep] = False
        left[klass] -= len(keep)
    rest = torch.arange(len(left)).repeat_interleave(left)
    order = torch.randperm(len(rest), generator=generator(seed, "invert", "labels"))
    classes[others] = rest[order]
    return Surrogate(start.x, hard_logits(classes, len(left)).to(start.y_logits))
