r"""A generator without data: a small network that makes inputs from noise and a label.

It is trained against the client's model, which the server knows. With inputs x = G(z, y) for
noise z and labels y it minimises

$$ L(f(x; w_{t-\tau} + \Delta), y) + \alpha_D\,e^{-D} + \alpha_T\,T(x)
   + \alpha_2\,\lVert x \rVert^2, \qquad
   D = \frac{1}{n^2} \sum_{i,j} d(x_i, x_j)\,\lVert z_i - z_j \rVert $$

where L is the loss of the client's recipe, T the total variation, the last term a mean square,
and d the mean absolute difference. The term with D makes inputs diverse, as FedGen's. Labels are
given, so DAFL's entropy of the predictions, which balances classes, is not needed. DAFL's term on
the activations before the last layer is left out: it would have to know the layers of the model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from unstale.inversion import InputSpec, Surrogate
from unstale.methods.base import check_fallback
from unstale.methods.comparators.from_teacher import Made, estimated, surrogates_in
from unstale.methods.comparators.priors import image_prior, likeness
from unstale.methods.comparators.surrogate_data import SurrogateData, check_settings
from unstale.methods.comparators.teacher import Teacher
from unstale.methods.conversion.client_memory import Entry
from unstale.seeding import generator
from unstale.updates import Outcome, ServerView, State, Update

# The slope of the network's activations below 0.
_LEAK = 0.2
_LAYERS = 3


@dataclass(frozen=True, slots=True)
class DataFreeGenerator:
    """Estimates fresh updates by training on samples of a generator made for the client.

    A comparator of the paper's Appendix C, not a recommendation. The generator is a perceptron
    with two hidden layers, so that it serves images, signals and features alike.

    Memory: for each client the generator's weights and the last samples.

    Example:
        >>> DataFreeGenerator(hidden=64).surrogate.max_samples
        128

    References:
        Chen et al., "Data-Free Learning of Student Networks" (DAFL), 2019; Zhu et al.,
        "Data-Free Knowledge Distillation for Heterogeneous Federated Learning" (FedGen), 2021.
    """

    trains_model: ClassVar[bool] = True

    iterations: int = 200
    """Steps of Adam for each update, each on new noise."""
    lr: float = 0.003
    """Step size for the generator's weights."""
    noise: int = 32
    """Entries of the noise that a sample is made from."""
    hidden: int = 128
    """Width of the two hidden layers."""
    diversity: float = 1.0
    """Weight of the term that makes samples differ."""
    tv: float = 0.1
    """Weight of the total variation: the mean difference between neighbours, as a share of the
    range."""
    l2: float = 3.0
    """Weight of the mean square of inputs, as a share of their range."""
    surrogate: SurrogateData = field(default_factory=SurrogateData)
    """Number and labels of the samples, and what becomes of them."""
    fallback: str = "keep"
    """What to do with an update whose base version is no longer stored: `keep` (use it unchanged)
    or `drop`."""

    def __post_init__(self) -> None:
        check_settings(
            "generator",
            self,
            {"iterations": 1, "noise": 1, "hidden": 1},
            ("lr", "diversity", "tv", "l2"),
        )
        check_fallback(self.fallback)

    @property
    def lookback(self) -> int:
        """0: only base versions are read."""
        return 0

    def init(self) -> State:
        """Return the state without any client."""
        return {"clients": {}}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Replace stale updates by estimates."""
        return estimated(
            updates, state, view, self.surrogate, self._generated, "generator", self.fallback
        )

    def surrogates(self, state: State) -> dict[str, Surrogate]:
        """Return the samples in the state, by client."""
        return surrogates_in(state)

    def fit_job(self, update: Update, state: State, view: ServerView) -> None:
        """Return None: nothing is computed in the background."""
        return

    def _generated(
        self, teacher: Teacher, labels: Tensor, inputs: InputSpec, seed: int, before: Entry
    ) -> Made:
        start = initial(self, inputs, generator(seed, "weights"))
        if "weights" in before and shapes(before["weights"]) == shapes(start):
            start = before["weights"]
        start = {name: p.to(teacher.like) for name, p in start.items()}
        weights, losses = train_generator(
            teacher, start, labels, inputs, self, generator(seed, "train")
        )
        z = _noise(len(labels), self.noise, generator(seed, "samples"), teacher.like)
        x = generate(weights, z, labels, inputs)
        return Made(x, losses, {"weights": weights})


def shapes(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Return the shape of each tensor, by name."""
    return {name: p.shape for name, p in weights.items()}


def initial(
    settings: DataFreeGenerator, inputs: InputSpec, rng: torch.Generator
) -> dict[str, Tensor]:
    """Return the weights of a new generator, drawn as suits leaky ReLUs."""
    sizes = [settings.noise + inputs.classes, *[settings.hidden] * 2, math.prod(inputs.shape)]
    weights: dict[str, Tensor] = {}
    for i, (before, after) in enumerate(pairwise(sizes)):
        drawn = torch.randn(after, before, generator=rng)
        weights[f"weight{i}"] = drawn * math.sqrt(2 / ((1 + _LEAK**2) * before))
        weights[f"bias{i}"] = torch.zeros(after)
    return weights


def generate(
    weights: Mapping[str, Tensor], noise: Tensor, labels: Tensor, inputs: InputSpec
) -> Tensor:
    """Return the generator's inputs for noise `[n, entries]` and labels `[n]`.

    They lie within the bounds: by a sigmoid where there are two, else they are cut.
    """
    h = torch.cat([noise, F.one_hot(labels, inputs.classes).to(noise)], dim=1)
    for i in range(_LAYERS):
        h = F.linear(h, weights[f"weight{i}"], weights[f"bias{i}"])
        if i < _LAYERS - 1:
            h = F.leaky_relu(h, _LEAK)
    h = h.reshape(len(noise), *inputs.shape)
    if inputs.low is not None and inputs.high is not None:
        return inputs.low + (inputs.high - inputs.low) * torch.sigmoid(h)
    return inputs.clamp(inputs.middle + inputs.unit * h)


def train_generator(
    teacher: Teacher,
    start: Mapping[str, Tensor],
    labels: Tensor,
    inputs: InputSpec,
    settings: DataFreeGenerator,
    rng: torch.Generator,
) -> tuple[dict[str, Tensor], tuple[float, ...]]:
    """Return trained weights of a generator, and the loss at each iteration.

    Args:
        teacher: The client's model.
        start: The generator's weights to begin with; they are not changed.
        labels: The classes to make samples of, all of them in each iteration.
        inputs: Shape and bounds.
        settings: The steps and the regularisers.
        rng: Draws the noise.
    """
    weights = {name: p.detach().clone().requires_grad_() for name, p in start.items()}
    optimizer = torch.optim.Adam(weights.values(), lr=settings.lr)
    losses: list[Tensor] = []
    with torch.enable_grad():
        for _ in range(settings.iterations):
            z = _noise(len(labels), settings.noise, rng, teacher.like)
            x = generate(weights, z, labels, inputs)
            loss = (
                teacher.loss(x, labels)
                + settings.diversity * likeness(x, z, inputs.unit)
                + image_prior(x, inputs, settings.tv, settings.l2)
            )
            grads = torch.autograd.grad(loss, list(weights.values()))
            for p, grad in zip(weights.values(), grads, strict=True):
                p.grad = grad
            optimizer.step()
            losses.append(loss.detach())
    found = {name: p.detach() for name, p in weights.items()}
    return found, tuple(torch.stack(losses).tolist())


def _noise(count: int, entries: int, rng: torch.Generator, like: Tensor) -> Tensor:
    return torch.randn(count, entries, generator=rng).to(like)
