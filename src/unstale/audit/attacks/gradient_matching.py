r"""Gradient matching: inputs whose gradient points where the client's update points.

Minimises, over the inputs x of all images, with known labels y,

$$ 1 - \cos\big(-\nabla_w L(w_\alpha; x, y),\; \Delta\big) + \lambda\,\mathrm{TV}(x),
   \qquad w_\alpha = w_0 + \alpha\,\Delta $$

With α = 0 this is the attack on single gradients of Geiping et al.; with a learned α it is the
surrogate model extension of Zhu et al. (`unstale.audit.attacks.surrogate_extension`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unstale.errors import ConfigError
from unstale.inversion import InputSpec
from unstale.inversion.objective import cosine, total_variation
from unstale.inversion.target import Target
from unstale.inversion.unroll import buffers_of, pays_to_batch
from unstale.params import Params
from unstale.seeding import generator
from unstale.training.local import LocalSpec, loss_gradient
from unstale.training.losses import Loss, resolve_loss
from unstale.training.token_models import surrogate_names
from unstale.training.vectorised import StackedTraining

# Weights of the total variation: of images with sides of at least 16, and of other inputs.
_LARGE_TV, _SMALL_TV, _LARGE_SIDE = 0.1, 1e-3, 16


@dataclass(frozen=True, slots=True)
class Matching:
    """How gradients are matched."""

    iterations: int = 400
    """Iterations of Adam on the sign of the gradient."""
    lr: float = 0.1
    """Step, as a share of the inputs' range; divided by 10 at 3/8, 5/8 and 7/8."""
    tv: float | None = None
    """λ, the weight of the total variation, measured as a share of the range; None chooses by
    `usual_tv`."""
    restarts: int = 1
    """Starts from different noise; the one of the least loss is taken."""
    alpha: float = 0.0
    """Where between the base (0) and the trained weights (1) the gradient is taken."""
    alpha_lr: float = 0.0
    """Learning rate of α; 0 leaves it as it is."""

    def __post_init__(self) -> None:
        for name in ("iterations", "restarts"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"Matching: `{name}` should be a positive integer. Found {value!r}."
                )
        for name in ("lr", "tv", "alpha_lr", "alpha"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ConfigError(
                    f"Matching: `{name}` should be at least 0 and finite. Found {value!r}."
                )


def usual_tv(shape: tuple[int, ...]) -> float:
    """Return the weight of the total variation that does well for inputs of a shape.

    Neighbours differ less in larger images. Chosen on seeds 0 to 2 from 0 to 0.4, on digits
    (8 × 8) with a perceptron and on MNIST (28 × 28) with LeNet.

    Example:
        >>> usual_tv((1, 8, 8)), usual_tv((3, 32, 32)), usual_tv((64,))
        (0.001, 0.1, 0.001)
    """
    return _LARGE_TV if len(shape) == 3 and min(shape[1:]) >= _LARGE_SIDE else _SMALL_TV


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """What gradient matching found."""

    x: Tensor
    """Inputs `[problems, images, ...]`."""
    loss: Tensor
    """The cosine distance that was reached `[problems]`."""
    alpha: Tensor
    """Where the gradients were taken `[problems]`."""


def match_gradients(
    model: nn.Module,
    targets: Sequence[Target],
    labels: Tensor,
    *,
    inputs: InputSpec,
    settings: Matching | None = None,
    loss: str | Loss = "cross_entropy",
    seed: int = 0,
) -> Recovered:
    """Find inputs whose gradients point where updates point, for several updates at once.

    Args:
        model: The structure that clients train.
        targets: The updates, with the weights that they started from and the entries to be seen.
        labels: The labels of the inputs `[problems, images, classes]`, or indices
            `[problems, images]`.
        inputs: What one input looks like.
        settings: How to search.
        loss: The loss that clients train on.
        seed: Draws the starts.
    """
    settings = settings or Matching()
    best: Recovered | None = None
    for restart in range(settings.restarts):
        found = _search(model, targets, labels, inputs, settings, loss, (seed, restart))
        if best is None:
            best = found
        else:
            better = found.loss < best.loss
            wide = better.reshape(-1, *[1] * (found.x.ndim - 1))
            best = Recovered(
                torch.where(wide, found.x, best.x),
                torch.where(better, found.loss, best.loss),
                torch.where(better, found.alpha, best.alpha),
            )
    assert best is not None  # noqa: S101  # there is at least one restart
    return best


def _search(
    model: nn.Module,
    targets: Sequence[Target],
    labels: Tensor,
    inputs: InputSpec,
    settings: Matching,
    loss: str | Loss,
    seed: tuple[int, int],
) -> Recovered:
    like = targets[0].delta
    base = {n: torch.stack([t.base[n].to(like) for t in targets]) for n in targets[0].base}
    delta = torch.stack([t.delta for t in targets])
    mask = None if targets[0].mask is None else torch.stack([_mask(t) for t in targets])
    gradient = _Gradients(model, resolve_loss(loss), labels.shape[1], inputs.shape, like.device)
    rng = generator(seed[0], "audit", "matching", seed[1])
    size = (len(targets), labels.shape[1], *inputs.shape)
    noise = torch.randn(size, generator=rng)
    x = inputs.clamp(inputs.middle + 0.25 * inputs.unit * noise).to(like).requires_grad_()
    alpha = torch.full((len(targets),), settings.alpha).to(like).requires_grad_()
    groups = [{"params": [x], "lr": settings.lr * inputs.unit}]
    if settings.alpha_lr:
        groups.append({"params": [alpha], "lr": settings.alpha_lr})
    optimizer = torch.optim.Adam(groups)
    cuts = [settings.iterations * eighths // 8 for eighths in (3, 5, 7)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, cuts, gamma=0.1)
    tv = usual_tv(inputs.shape) if settings.tv is None else settings.tv
    best_x, best_loss, best_alpha = x.detach().clone(), torch.full_like(alpha, 2.0), alpha.detach()
    least = torch.full_like(best_loss, float("inf"))
    for _ in range(settings.iterations):
        optimizer.zero_grad(set_to_none=True)
        at = alpha if settings.alpha_lr else alpha.detach()
        far = cosine(-gradient(_between(base, delta, at, gradient.names), x, labels), delta, mask)
        total = far + tv * total_variation(x, inputs.shape) / inputs.unit
        with torch.no_grad():  # the loss is that of x before the step
            better = total < least
            least = torch.where(better, total, least)
            best_loss = torch.where(better, far, best_loss)
            best_alpha = torch.where(better, alpha, best_alpha)
            wide = better.reshape(-1, *[1] * (x.ndim - 1))
            best_x = torch.where(wide, x, best_x)
        total.sum().backward()  # type: ignore[no-untyped-call]
        if x.grad is not None:
            x.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            x.copy_(inputs.clamp(x))
            alpha.clamp_(0, 1)
    return Recovered(best_x, best_loss.detach(), best_alpha.detach())


def _mask(target: Target) -> Tensor:
    return torch.ones_like(target.delta, dtype=torch.bool) if target.mask is None else target.mask


def _between(
    base: Params, delta: Tensor, alpha: Tensor, names: tuple[str, ...]
) -> dict[str, Tensor]:
    """Return the weights w₀ + αΔ, stacked; α may require a gradient."""
    sizes = [base[n][0].numel() for n in names]
    parts = torch.split(delta, sizes, dim=1)
    moved = {
        n: base[n] + (alpha[:, None] * part).reshape(base[n].shape)
        for n, part in zip(names, parts, strict=True)
    }
    return {**base, **moved}


class _Gradients:
    """The gradients of several problems as vectors, differentiable in inputs and weights."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        images: int,
        shape: tuple[int, ...],
        device: torch.device,
    ) -> None:
        self.names = surrogate_names(model)
        self._model, self._loss = model, loss
        self._size, self._device = (images, *shape), device
        self._buffers = buffers_of(model)
        self._stacked = StackedTraining(model, LocalSpec(loss=loss), names=self.names)

    def __call__(self, weights: Params, x: Tensor, y: Tensor) -> Tensor:
        if pays_to_batch((len(x), *self._size), self._device):
            found = self._stacked.step_gradient(self._buffers)(weights, x, y)
            return torch.cat([found[n].flatten(1) for n in self.names], dim=1)
        rows = []
        for i in range(len(x)):
            own = {
                n: w[i] if w.requires_grad else w[i].detach().requires_grad_()
                for n, w in weights.items()
            }
            one = loss_gradient(
                self._model, self._loss, self.names, own, self._buffers, x[i], y[i],
                create_graph=True,
            )  # fmt: skip
            rows.append(torch.cat([one[n].reshape(-1) for n in self.names]))
        return torch.stack(rows)
