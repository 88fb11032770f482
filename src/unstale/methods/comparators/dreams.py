r"""Dreams: inputs optimised until the client's model classifies them as wanted.

Starting from noise, inputs x for labels y are found by gradient descent on

$$ L(f(x; w_{t-\tau} + \Delta), y) + \alpha_T\,T(x) + \alpha_2\,\lVert x \rVert^2 $$

where $f(x; w_{t-\tau} + \Delta)$ is the client's model, which the server knows, L the loss of its
recipe, T the total variation and the last term a mean square. DeepInversion adds the distance to
the statistics of BatchNorm layers, which models here do not have; what is left is its image
prior, as in DeepDream. DeepInversion also shifts images by a few positions in each iteration, so
that no single pixel decides (`jitter`); on small images that did harm, so it is off.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from unstale.inversion import InputSpec, Surrogate
from unstale.methods.base import check_fallback
from unstale.methods.comparators.from_teacher import Made, estimated, surrogates_in
from unstale.methods.comparators.priors import image_prior
from unstale.methods.comparators.surrogate_data import SurrogateData, check_settings
from unstale.methods.comparators.teacher import Teacher
from unstale.methods.conversion.client_memory import Entry, surrogate_of
from unstale.seeding import generator
from unstale.updates import Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class DreamedInputs:
    """Estimates fresh updates by training on inputs optimised against the client's model.

    A comparator of the paper's Appendix C, not a recommendation. The stale update only serves
    to rebuild the client's model, so that what distinguishes it from the base version has
    little influence on the inputs.

    Memory: for each client the samples, up to `surrogate.max_samples`.

    Example:
        >>> DreamedInputs(iterations=100).surrogate.labels
        'guessed'

    References:
        Yin et al., "Dreaming to Distill: Data-free Knowledge Transfer via DeepInversion", 2020.
    """

    trains_model: ClassVar[bool] = True

    iterations: int = 200
    """Steps of Adam for each update."""
    lr: float = 0.05
    """Step size, as a share of the inputs' range."""
    noise: float = 0.3
    """Standard deviation of the initial inputs, as a share of their range."""
    tv: float = 0.1
    """Weight of the total variation: the mean difference between neighbours, as a share of the
    range."""
    l2: float = 3.0
    """Weight of the mean square of inputs, as a share of their range."""
    jitter: int = 0
    """The largest shift of images and signals in an iteration, in positions; 0 for none."""
    surrogate: SurrogateData = field(default_factory=SurrogateData)
    """Number and labels of the samples, and what becomes of them."""
    fallback: str = "keep"
    """What to do with an update whose base version is no longer stored: `keep` (use it unchanged)
    or `drop`."""

    def __post_init__(self) -> None:
        check_settings("dreams", self, {"iterations": 1, "jitter": 0}, ("lr", "noise", "tv", "l2"))
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
            updates, state, view, self.surrogate, self._dreamed, "dreams", self.fallback
        )

    def surrogates(self, state: State) -> dict[str, Surrogate]:
        """Return the samples in the state, by client."""
        return surrogates_in(state)

    def fit_job(self, update: Update, state: State, view: ServerView) -> None:
        """Return None: nothing is computed in the background."""
        return

    def _dreamed(
        self, teacher: Teacher, labels: Tensor, inputs: InputSpec, seed: int, before: Entry
    ) -> Made:
        rng = generator(seed, "noise")
        drawn = torch.randn(len(labels), *inputs.shape, generator=rng)
        x = inputs.clamp(inputs.middle + self.noise * inputs.unit * drawn).to(teacher.like)
        if (last := surrogate_of(before)) is not None and last.fits(inputs):
            x = continued(last, x, labels)
        x, losses = dream(teacher, x, labels, inputs, self, generator(seed, "jitter"))
        return Made(x, losses)


def continued(last: Surrogate, fresh: Tensor, labels: Tensor) -> Tensor:
    """Return `fresh`, with the last sample in each place whose label is still the same.

    Example:
        >>> last = Surrogate(torch.ones(2, 1), torch.eye(2))
        >>> continued(last, torch.zeros(3, 1), torch.tensor([0, 0, 1])).flatten()
        tensor([1., 0., 0.])
    """
    count = min(len(last), len(fresh))
    same = last.y_logits[:count].argmax(1).to(labels) == labels[:count]
    start = fresh.clone()
    start[:count][same] = last.x[:count].to(fresh)[same]
    return start


def dream(
    teacher: Teacher,
    start: Tensor,
    labels: Tensor,
    inputs: InputSpec,
    settings: DreamedInputs,
    rng: torch.Generator,
) -> tuple[Tensor, tuple[float, ...]]:
    """Return inputs that the teacher classifies as `labels`, and the loss at each iteration.

    Args:
        teacher: The client's model.
        start: Where the inputs begin.
        labels: The class of each.
        inputs: Shape and bounds; after each step inputs are brought within the bounds.
        settings: The steps and the regularisers.
        rng: Draws the shifts.
    """
    x = start.detach().clone().requires_grad_()
    optimizer = torch.optim.Adam([x], lr=settings.lr * inputs.unit)
    losses: list[Tensor] = []
    axes = tuple(range(2, x.ndim))  # beyond samples and channels
    with torch.enable_grad():
        for _ in range(settings.iterations):
            far = settings.jitter
            shifts = torch.randint(-far, far + 1, (len(axes),), generator=rng).tolist()
            seen = torch.roll(x, shifts, axes) if axes and far else x
            loss = teacher.loss(seen, labels) + image_prior(x, inputs, settings.tv, settings.l2)
            (x.grad,) = torch.autograd.grad(loss, [x])
            optimizer.step()
            with torch.no_grad():
                x.copy_(inputs.clamp(x))
            losses.append(loss.detach())
    return x.detach(), tuple(torch.stack(losses).tolist())
