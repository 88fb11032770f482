r"""The training recipe of a surrogate, made of the client's.

A surrogate has fewer samples than its client, so its batches are smaller in proportion. A
recipe of many steps may be run in fewer: each of k' steps then stands for k / k' of the
client's. The learning rate is scaled so that a constant gradient would move the weights as
far as in the client's k steps. With momentum m, k steps of SGD at learning rate η move them by

$$ \eta\,D(k), \qquad D(k) = \sum_{i=1}^{k} \frac{1 - m^i}{1 - m}, $$

so η is multiplied by D(k) / D(k'). Adam's steps have about the size of its learning rate,
which is multiplied by k / k'.

Adam divides each entry of the gradient by its own size, so that an entry whose gradient is
nearly zero moves as far as any other, in a direction of chance. No surrogate reproduces that,
and one that tries carries over badly. A larger constant in the denominator lets such entries
rest.
"""

import math
from dataclasses import replace

from unstale.training.spec import LocalSpec


def surrogate_recipe(
    local: LocalSpec,
    num_examples: int,
    samples: int,
    max_steps: int | None = None,
    adam_eps: float = 0.0,
) -> LocalSpec:
    """Return the recipe for a surrogate of `samples` samples.

    Args:
        local: The client's recipe.
        num_examples: How many examples the client trained on.
        samples: How many the surrogate has.
        max_steps: The most steps; a longer recipe is run in so many.
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
    size = _batch_size(local, num_examples, samples)
    if max_steps is None or steps <= max_steps:
        return replace(local, epochs=None, steps=steps, batch_size=size)
    if size is not None:
        passes = steps / -(-samples // size)
        size = math.ceil(passes * samples / max_steps)
        size = size if size < samples else None
    lr = local.lr * lr_factor(local, steps, max_steps)
    return replace(local, epochs=None, steps=max_steps, batch_size=size, lr=lr)


def lr_factor(local: LocalSpec, steps: int, fewer: int) -> float:
    """Return what the learning rate is multiplied by where `fewer` steps stand for `steps`."""
    momentum = local.momentum if local.optimizer == "sgd" else 0.0

    def distance(count: int) -> float:
        return sum((1 - momentum**i) / (1 - momentum) for i in range(1, count + 1))

    return distance(steps) / distance(fewer)


def _batch_size(local: LocalSpec, num_examples: int, samples: int) -> int | None:
    """Return the size by which a surrogate has as many batches as its client; None for all."""
    if local.batch_size is None or local.batch_size >= num_examples:
        return None
    batches = -(-num_examples // local.batch_size)
    return -(-samples // batches)
