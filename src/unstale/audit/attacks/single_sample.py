"""The easiest case, the paper's: one sample, one gradient step, and then what is to be seen of it.

Two attacks: our own inversion with one sample and a learned label, and gradient matching with
the label read from the last layer.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unstale.audit.attacks.gradient_matching import Matching, match_gradients
from unstale.audit.attacks.last_layer import single_label
from unstale.errors import UnknownNameError
from unstale.inversion import InputSpec, Inversion, Request, fit_many
from unstale.inversion.target import target_of
from unstale.params import Params, scale
from unstale.privacy import Protection, protect
from unstale.seeding import derive, generator
from unstale.training.local import LocalSpec, local_update
from unstale.training.token_models import surrogate_names

ATTACKS = ("inversion", "matching")
# What is recovered of one sample is wanted at any loss, and the surrogate is that one sample.
_ONE = {"min_samples": 1, "max_samples": 1, "history": 1, "max_loss": 1e9, "restart_loss": 0.0}


def inversion_settings(sparsity: float, iterations: int, at_once: int = 16) -> Inversion:
    """Return the settings of our own inversion for one sample and one gradient.

    Steps are small and the fit does not stop early: this is an attack, not a conversion.
    """
    return Inversion(
        **_ONE,  # type: ignore[arg-type]
        sparsity=sparsity,
        iterations=iterations,
        start="halfway",
        schedule="cosine",
        patience=0,
        at_once=at_once,
    )


def recover_singles(
    attack: str,
    model: nn.Module,
    params: Params,
    x: Tensor,
    y: Tensor,
    *,
    inputs: InputSpec,
    protection: Protection,
    iterations: int = 400,
    tv: float | None = None,
    lr: float = 0.01,
    at_once: int = 16,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Attack each sample by itself, from the gradient of its loss.

    Args:
        attack: `inversion`, our own; or `matching`, cosine distance and total variation.
        model: The structure.
        params: The weights at which gradients are taken.
        x: The samples.
        y: Their labels.
        inputs: What one input looks like.
        protection: What the client does to the gradient, on its own scale.
        iterations: Of each attack.
        tv: Weight of the total variation, of `matching`; None chooses by the inputs' shape.
        lr: The learning rate of the step, from which the update is computed.
        at_once: How many samples are attacked in one batch; bounds the memory.
        seed: Seeds starts and noise.

    Returns:
        The recovered inputs, in the order of `x`, and the recovered labels. Where an attack finds
        nothing, its start.
    """
    if attack not in ATTACKS:
        raise UnknownNameError("The attack", attack, ATTACKS)
    local = LocalSpec(lr=lr, steps=1)
    found = []
    for first in range(0, len(x), at_once):
        seen = [
            _seen(
                local_update(model, params, x[i : i + 1], y[i : i + 1], local),
                protection,
                local.lr,
                generator(seed, "audit", "noise", i),
            )
            for i in range(first, min(first + at_once, len(x)))
        ]
        batch = derive(seed, "audit", "batch", first)
        if attack == "matching":
            search = Matching(iterations=iterations, tv=tv)
            found.append(_matched(model, params, seen, inputs, protection, search, batch))
        else:
            settings = inversion_settings(protection.sparsity, iterations, at_once)
            found.append(_inverted(model, params, seen, inputs, settings, local, batch))
    return torch.cat([part for part, _ in found]), torch.cat([labels for _, labels in found])


def _seen(
    delta: Params, protection: Protection, lr: float, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return the update of a step whose gradient was protected."""
    return scale(protect(scale(delta, 1 / lr), protection, generator), lr)


def _matched(
    model: nn.Module,
    params: Params,
    seen: Sequence[Params],
    inputs: InputSpec,
    protection: Protection,
    settings: Matching,
    seed: int,
) -> tuple[Tensor, Tensor]:
    names = surrogate_names(model)
    targets = [target_of(params, delta, names, protection.sparsity) for delta in seen]
    labels = torch.tensor([single_label(model, delta, inputs.classes) for delta in seen])
    labels = labels.to(targets[0].delta.device)
    found = match_gradients(
        model, targets, labels[:, None], inputs=inputs, settings=settings, seed=seed
    )
    return found.x[:, 0], labels


def _inverted(
    model: nn.Module,
    params: Params,
    seen: Sequence[Params],
    inputs: InputSpec,
    settings: Inversion,
    local: LocalSpec,
    seed: int,
) -> tuple[Tensor, Tensor]:
    requests = [
        Request(params, delta, 1, seed=derive(seed, "audit", "single", i))
        for i, delta in enumerate(seen)
    ]
    fits = fit_many(model, requests, local=local, inputs=inputs, settings=settings)
    like = next(iter(params.values()))
    x = torch.stack(
        [
            torch.full(inputs.shape, inputs.middle).to(like)
            if fit.surrogate is None
            else fit.surrogate.x[0].to(like)
            for fit in fits
        ]
    )
    labels = [0 if f.surrogate is None else int(f.surrogate.labels[0].argmax()) for f in fits]
    return x, torch.tensor(labels, device=x.device)
