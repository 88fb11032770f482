r"""The training recipe of a surrogate, made of the client's.

A surrogate has fewer samples than its client, so its batches are smaller in proportion.

A long recipe of SGD may be run in fewer steps, k' instead of k, so that each one stands for
r = k / k' of the client's. Momentum m is remembered as long as before, that is m' = m^r, and
the learning rate η is such that a constant gradient would move the weights as far:

$$ \eta' = \eta\,\frac{D(k, m)}{D(k', m')}, \qquad
   D(k, m) = \sum_{i=1}^{k} \frac{1 - m^i}{1 - m}, $$

where η·D(k, m) is how far k steps move them. Adam is not shortened: it divides by the size of
the gradients, which differs with the batches, and surrogates fitted worse by fewer steps.

That division also lets an entry whose gradient is nearly zero move as far as any other, in a
direction of chance. No surrogate reproduces that, and one that tries carries over badly. A
larger constant in Adam's denominator lets such entries rest.
"""

import math
from dataclasses import replace

from unstale.training.spec import LocalSpec


def surrogate_recipe(
    local: LocalSpec,
    num_examples: int,
    samples: int,
    max_steps: int = 0,
    adam_eps: float = 0.0,
) -> LocalSpec:
    """Return the recipe for a surrogate of `samples` samples.

    Args:
        local: The client's recipe.
        num_examples: How many examples the client trained on.
        samples: How many the surrogate has.
        max_steps: The most steps; a longer recipe of SGD is run in so many. 0 for no limit.
        adam_eps: The least constant in Adam's denominator, if the client runs Adam.

    Example:
        >>> client = LocalSpec(lr=0.01, epochs=5, batch_size=20)  # 30 steps on 120 examples
        >>> short = surrogate_recipe(client, 120, 60, max_steps=15)
        >>> short.steps, short.batch_size, short.lr  # 3 batches a pass, 5 passes
        (15, 20, 0.02)
    """
    if local.optimizer == "adam":
        local = replace(local, eps=max(local.eps, adam_eps))
    steps = local.num_steps(num_examples)
    if local.batch_size is None or local.batch_size >= num_examples:
        batches = 1
    else:
        batches = math.ceil(num_examples / local.batch_size)  # of one pass over the data
    lr, momentum = local.lr, local.momentum
    if max_steps and steps > max_steps and local.optimizer == "sgd":
        ratio = steps / max_steps
        batches = max(round(batches / ratio), 1)
        momentum = local.momentum**ratio
        lr *= _distance(steps, local.momentum) / _distance(max_steps, momentum)
        steps = max_steps
    size = math.ceil(samples / batches) if batches > 1 else None
    return replace(local, epochs=None, steps=steps, batch_size=size, lr=lr, momentum=momentum)


def _distance(steps: int, momentum: float) -> float:
    """Return how far SGD moves under a constant gradient of 1 at learning rate 1."""
    return sum((1 - momentum**i) / (1 - momentum) for i in range(1, steps + 1))
