"""Inversion in embedding space: surrogates of vectors for a model of token ids."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from unstale import models
from unstale.errors import ConfigError
from unstale.inversion import Inversion, convert, embedded_inputs
from unstale.inversion.convert import with_stale_embedding
from unstale.inversion.unroll import batched, one_by_one, stacked
from unstale.params import add, flatten, params_of
from unstale.seeding import generator
from unstale.training.local import LocalSpec, local_update

WORDS, LENGTH, CLASSES = 12, 6, 3
EMBEDDING = "token_embedding.weight"
MODEL = models.build("text_cnn", (LENGTH,), CLASSES, vocabulary=WORDS, dim=4, channels=5)
INPUTS = embedded_inputs(MODEL, (LENGTH,), CLASSES)
LOCAL = LocalSpec(lr=0.3, epochs=3)
FEW = Inversion(iterations=40, min_samples=6, start="grey")
X = torch.randint(WORDS, (8, LENGTH), generator=generator(0, "test", "x"))
Y = torch.arange(8) % 2
BASE = params_of(MODEL)
STALE = local_update(MODEL, BASE, X, Y, LOCAL)
CURRENT = add(BASE, STALE, 2.0)


def converted(settings=FEW, delta=STALE, model=MODEL):
    return convert(
        model, base=BASE, current=CURRENT, delta=delta, local=LOCAL, inputs=INPUTS,
        num_examples=len(X), settings=settings,
    )  # fmt: skip


def test_what_surrogates_look_like():
    assert (INPUTS.shape, INPUTS.classes, INPUTS.low) == ((4, LENGTH), CLASSES, None)
    with pytest.raises(ConfigError, match="token_embedding"):
        embedded_inputs(nn.Linear(2, 2), (2,), 2)


def test_the_embedding_s_change_is_scaled_as_the_residual_is():
    found = converted()
    assert found.ok
    assert found.surrogate.x.shape[1:] == (4, LENGTH)
    assert not found.explained[EMBEDDING].any()
    trained = local_update(MODEL, CURRENT, found.surrogate.x, found.surrogate.labels, LOCAL)
    now, then = flatten(trained), flatten(found.explained)
    share = ((now @ then) / (then @ then)).clamp(0, 1)
    assert 0 < float(share) < 1
    assert torch.allclose(found.delta[EMBEDDING], share * STALE[EMBEDDING], atol=1e-6)


def test_without_residual_the_embedding_s_change_stays_stale():
    found = converted(replace(FEW, residual=False))
    assert found.ok
    assert torch.equal(found.delta[EMBEDDING], STALE[EMBEDDING])
    trained = local_update(MODEL, CURRENT, found.surrogate.x, found.surrogate.labels, LOCAL)
    assert torch.allclose(found.delta["fc.weight"], trained["fc.weight"], atol=1e-6)


def test_other_models_have_nothing_that_stays_stale():
    estimate = {"weight": torch.zeros(2, 2), "bias": torch.zeros(2)}
    delta = {"weight": torch.ones(2, 2), "bias": torch.ones(2)}
    assert not flatten(with_stale_embedding(nn.Linear(2, 2), estimate, delta)).any()


def test_the_fit_is_the_same_whatever_the_embedding_s_change_is():
    """Words' vectors are no part of what is fitted: no surrogate of vectors changes them."""
    other = {**STALE, EMBEDDING: torch.randn(WORDS, 4, generator=generator(0, "test", "other"))}
    assert converted(delta=other).losses == converted().losses


def test_an_update_of_the_embedding_alone_cannot_be_fitted():
    alone = {n: d if n == EMBEDDING else torch.zeros_like(d) for n, d in STALE.items()}
    found = converted(delta=alone)
    assert (found.ok, found.reason) == (False, "the update is zero")
    assert torch.equal(found.delta[EMBEDDING], STALE[EMBEDDING])


def test_both_forms_of_training_agree_in_change_and_gradient():
    model = models.build("text_cnn", (LENGTH,), CLASSES, vocabulary=WORDS, dim=4).double()
    start = params_of(model)
    rng = generator(0, "test", "vectors")
    x = torch.randn(3, 5, 4, LENGTH, generator=rng, dtype=torch.float64)
    labels = torch.rand(3, 5, CLASSES, generator=rng, dtype=torch.float64).softmax(-1)
    weights = {n: p.expand(3, *p.shape) for n, p in start.items()}
    found = []
    for form in (one_by_one, batched):
        vectors = x.clone().requires_grad_()
        change = form(model, LOCAL)(stacked(model, LOCAL, weights, vectors, labels))
        (gradient,) = torch.autograd.grad(change.square().sum(), vectors)
        found.append((change.detach(), gradient))
    entries = sum(p.numel() for n, p in start.items() if n != EMBEDDING)
    assert found[0][0].shape == (3, entries)
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-10)
    assert float(found[0][1].abs().max()) > 0
