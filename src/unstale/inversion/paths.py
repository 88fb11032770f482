r"""How the gradient of a fit is taken: through the trained weights, or along their path.

A surrogate (x, y) is trained in k steps. With the gradient of the loss at step i,

$$ g_i = \nabla_w \ell(w_i; x, y), \qquad w_{i+1} = w_i + \text{optimizer}(g_0, …, g_i), $$

the change of the weights depends on x directly, through each g_i, and indirectly, because
the weights w_i at which a g_i is taken depend on x as well.

- `exact` differentiates through both. Autograd holds the graphs of all k steps at once.
- `along` takes each w_i as given: the derivative of g_i(x; stop(w_i)), while the optimizer's
  arithmetic stays differentiable in the g_i. For one step both are the same. Steps can then
  be differentiated one by one, so that one step's graph is held at a time.

`along` trains twice. The first pass gives the change, its disparity, and from that the
derivative v_i of the disparity with respect to each g_i. The second goes the same path and
adds up the derivatives of ⟨g_i, v_i⟩ with respect to x and y.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Protocol

import torch
from torch import Tensor

from unstale.inversion.unroll import Unroll, flat_change
from unstale.params import Params
from unstale.training.local import LocalSpec, train
from unstale.training.vectorised import StackedClients, train_stacked

# The most steps for which the path `auto` is `exact`, which takes less time and, where steps
# are long, fewer iterations.
EXACT_STEPS = 20

# What each training changes [trainings, entries] -> each client's disparity
FitOf = Callable[[Tensor], Tensor]


class Path(Protocol):
    """One way to differentiate a fit."""

    def __call__(
        self, unroll: Unroll, trainings: StackedClients, fit_of: FitOf
    ) -> tuple[Tensor, Tensor]:
        """Return each client's disparity, and a number to differentiate.

        The derivative of that number with respect to inputs and labels of the trainings is
        that of the sum of the disparities; its value means nothing.
        """
        ...


def exact(unroll: Unroll, trainings: StackedClients, fit_of: FitOf) -> tuple[Tensor, Tensor]:
    """Differentiate through the trained weights: a `Path`."""
    fit = fit_of(unroll(trainings))
    return fit, fit.sum()


class Along:
    """Differentiate along the path of the weights: a `Path`.

    SGD is linear, so that v_i is u·c_i: the derivative u of the disparity with respect to the
    change, times a number that the recipe decides. No step leaves anything behind there. With
    Adam the gradients of all steps are kept: one float per weight and step.

    Args:
        local: The recipe.
        steps: How many steps it takes on a surrogate.
    """

    def __init__(self, local: LocalSpec, steps: int) -> None:
        self._numbers: list[float] | None = None
        if local.optimizer == "sgd":
            zeros = [torch.zeros((), dtype=torch.float64)] * (steps + 1)
            found = _through_optimizer(local, zeros[0], zeros[1:], torch.ones_like(zeros[0]))
            self._numbers = [float(c) for c in found]

    def __call__(
        self, unroll: Unroll, trainings: StackedClients, fit_of: FitOf
    ) -> tuple[Tensor, Tensor]:
        """Return each client's disparity, and a number to differentiate."""
        x, y = trainings.x, trainings.y
        fixed = StackedClients(
            {n: w.detach() for n, w in trainings.weights.items()},
            trainings.buffers,
            x.detach(),
            y.detach(),
            trainings.batches,
        )
        gradients: list[Params] = []
        deltas = self._trained(unroll, fixed, gradients).requires_grad_()
        with torch.enable_grad():
            fit = fit_of(deltas)
            (toward,) = torch.autograd.grad(fit.sum(), deltas)
        wanted = self._wanted(unroll, fixed, gradients, toward)
        by_x, by_y = _summed(unroll, fixed, wanted)
        return fit.detach(), (x * by_x).sum() + (y * by_y).sum()

    def _trained(
        self, unroll: Unroll, trainings: StackedClients, gradients: list[Params]
    ) -> Tensor:
        """Return the changes `[trainings, entries]`; note the gradients where they are needed."""
        step = unroll.step_gradient(trainings.buffers)

        def noted(current: Params, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            found = step(current, x, y)
            if self._numbers is None:
                gradients.append(dict(found))
            return found

        with torch.no_grad():
            trained = train_stacked(trainings, unroll.local, noted, unroll.names)
            return flat_change(trained, trainings.weights, unroll.names)

    def _wanted(
        self,
        unroll: Unroll,
        trainings: StackedClients,
        gradients: Sequence[Params],
        toward: Tensor,
    ) -> Iterator[tuple[float, Params]]:
        """Yield for each step a number and tensors by name, whose product is v_i."""
        names, weights = unroll.names, trainings.weights
        parts = torch.split(toward, [weights[n][0].numel() for n in names], dim=1)
        by_name = {n: p.view_as(weights[n]) for n, p in zip(names, parts, strict=True)}
        if self._numbers is not None:
            return zip(self._numbers, repeat(by_name), strict=False)
        # One parameter after the other, so that one graph of Adam is held at a time.
        each = {
            n: _through_optimizer(unroll.local, weights[n], [g[n] for g in gradients], by_name[n])
            for n in names
        }
        return ((1.0, {n: each[n][i] for n in names}) for i in range(len(gradients)))


def _through_optimizer(
    local: LocalSpec, start: Tensor, gradients: Sequence[Tensor], toward: Tensor
) -> Sequence[Tensor]:
    """Return ⟨toward, d trained / d g_i⟩ for each gradient of one parameter."""
    with torch.enable_grad():
        leaves = [g.detach().requires_grad_() for g in gradients]
        given = iter(leaves)
        trained = train(
            {"w": start}, start, start, local, lambda *_: {"w": next(given)}, ("w",),
            repeat(None, len(leaves)),
        )  # fmt: skip
        return torch.autograd.grad(trained["w"], leaves, toward)


def _summed(
    unroll: Unroll, trainings: StackedClients, wanted: Iterator[tuple[float, Params]]
) -> tuple[Tensor, Tensor]:
    """Return Σ d⟨g_i, v_i⟩ with respect to inputs and labels, one step's graph at a time."""
    x, y = trainings.x.detach().requires_grad_(), trainings.y.detach().requires_grad_()
    sums = torch.zeros_like(x), torch.zeros_like(y)
    step = unroll.step_gradient(trainings.buffers)

    def gradient(current: Params, xb: Tensor, yb: Tensor) -> dict[str, Tensor]:
        found = step(current, xb, yb)
        number, tensors = next(wanted)
        used = [n for n in unroll.names if found[n].requires_grad]  # others are constant zeros
        parts = torch.autograd.grad(
            [found[n] for n in used],
            (x, y),
            [tensors[n] for n in used],
            materialize_grads=True,
        )
        for total, part in zip(sums, parts, strict=True):
            total.add_(part, alpha=number)
        return {n: g.detach() for n, g in found.items()}

    with torch.enable_grad():
        again = StackedClients(trainings.weights, trainings.buffers, x, y, trainings.batches)
        train_stacked(again, unroll.local, gradient, unroll.names)
    return sums


PATHS = ("auto", "exact", "along")


def path_of(name: str, local: LocalSpec, steps: int) -> Path:
    """Return the path of that name for surrogates that are trained in so many steps.

    Args:
        name: `exact`, `along`, or `auto`: `exact` up to `EXACT_STEPS` steps.
        local: The recipe.
        steps: How many steps it takes on a surrogate.
    """
    if name == "exact" or (name == "auto" and steps <= EXACT_STEPS):
        return exact
    return Along(local, steps)
