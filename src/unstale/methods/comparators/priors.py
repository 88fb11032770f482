"""Regularisers of inputs that are made without data, each a mean, so that sizes compare.

Inputs are measured in units of their range (`InputSpec.unit`) from their plain value
(`InputSpec.middle`), so that one setting serves pixels and sensors alike.
"""

import torch
from torch import Tensor

from unstale.inversion import InputSpec
from unstale.inversion.objective import total_variation


def image_prior(x: Tensor, inputs: InputSpec, tv: float, l2: float) -> Tensor:
    r"""Return $\alpha_T\,T(u) + \alpha_2\,\lVert u \rVert^2$ for inputs u in units.

    T is the total variation, the mean absolute difference between neighbours (features have
    none); the second term is a mean over all entries.

    Example:
        >>> x = torch.tensor([[[0.0, 1.0, 1.0]]])
        >>> image_prior(x, InputSpec((1, 3), 2), tv=1.0, l2=0.0)
        tensor(0.5000)
    """
    u = (x - inputs.middle) / inputs.unit
    return tv * total_variation(u, inputs.shape) + l2 * u.square().mean()


def likeness(x: Tensor, noise: Tensor, unit: float) -> Tensor:
    r"""Return how alike inputs are that come from different noise, from 0 to 1.

    $$ e^{-D}, \qquad D = \frac{1}{n^2} \sum_{i,j} d(x_i, x_j)\,\lVert z_i - z_j \rVert $$

    where d is the mean absolute difference in units of the inputs' range, and z the noise. It
    is 1 where all inputs are the same: a generator that minimises it has to be diverse.

    Args:
        x: Inputs `[n, ...]`.
        noise: What each was made from `[n, entries]`.
        unit: The inputs' range.

    Example:
        >>> likeness(torch.ones(3, 4), torch.eye(3), unit=1.0)
        tensor(1.)
    """
    flat = x.flatten(1) / unit
    apart = torch.cdist(flat, flat, p=1.0) / flat.shape[1]
    # The noise is a constant: no gradient of a distance of 0 is needed.
    return torch.exp(-(apart * torch.cdist(noise, noise)).mean())
