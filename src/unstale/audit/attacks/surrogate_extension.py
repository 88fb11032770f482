"""Surrogate model extension (SME): gradient matching for updates of many local steps.

An update of many steps is no gradient at the weights that the client started from. There is
often a point between the start and the end of its training at which the gradient of its data
is nearly parallel to the update; the attack looks for that point, too. It needs no unrolled
training, and the server needs nothing of conversion to run it: what it finds, the update leaks.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from unstale.audit.attacks.gradient_matching import Matching, Recovered, match_gradients
from unstale.inversion import InputSpec
from unstale.inversion.target import Target
from unstale.training.losses import Loss

START, LEARNING_RATE = 0.5, 0.01
"""Where the search for the point between the weights begins, and its steps."""


def extend_surrogates(
    model: nn.Module,
    targets: Sequence[Target],
    labels: Tensor,
    *,
    inputs: InputSpec,
    settings: Matching | None = None,
    loss: str | Loss = "cross_entropy",
    seed: int = 0,
) -> Recovered:
    """Recover the inputs of updates of one or many local steps.

    Args:
        model: The structure that clients train.
        targets: The updates, with the weights that they started from.
        labels: The labels of the inputs, known or guessed; as many as inputs are looked for.
        inputs: What one input looks like.
        settings: How to search; `alpha` and `alpha_lr` are set here.
        loss: The loss that clients train on.
        seed: Draws the starts.

    References:
        Zhu, Yao and Blaschko, Surrogate Model Extension (SME): A Fast and Accurate Weight Update
        Attack on Federated Learning, ICML 2023.
    """
    chosen = replace(settings or Matching(), alpha=START, alpha_lr=LEARNING_RATE)
    return match_gradients(
        model, targets, labels, inputs=inputs, settings=chosen, loss=loss, seed=seed
    )
