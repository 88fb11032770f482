"""Conversion of a text model's updates: the estimate is nearer to the truth than the stale one."""

from dataclasses import replace
from statistics import fmean

import pytest
import torch

from unstale import LocalSpec, data, models
from unstale.check import Client, Trial, check_conversion, run_trial
from unstale.check.clients import clients_of, random_tokens
from unstale.errors import ConfigError
from unstale.inversion import InputSpec, Inversion, embedded_inputs
from unstale.methods import Convert, ConvertAll
from unstale.params import params_of

LOCAL = LocalSpec(lr=0.2, momentum=0.5, epochs=5)


def text_model(dataset, **settings):
    words = len(dataset.vocabulary)
    shape, classes = dataset.input_shape, dataset.num_classes
    model = models.build("text_cnn", shape, classes, vocabulary=words, **settings)
    return model, embedded_inputs(model, shape, classes)


@pytest.mark.parametrize("frozen", [(), ("token_embedding",)], ids=["trained", "frozen"])
def test_conversions_on_the_generated_corpus_help(frozen):
    dataset = data.load("topics")
    model, inputs = text_model(dataset, dim=12, channels=16)
    models.freeze(model, frozen)
    places = torch.arange(24)  # of one topic each: every sixth text is of the same
    clients = [
        Client(dataset.x_train[at], dataset.y_train[at])
        for at in (places * 6 + (144 * (i // 6) + i % 6) for i in range(12))
    ]
    trial = Trial(slow=(0, 7), staleness=12, begin=4, arrivals=1)
    alone = ConvertAll(Inversion(iterations=30, min_samples=8, max_samples=8, start="grey"))
    found = run_trial(
        model, clients, trial, {"convert": alone}, local=LOCAL, inputs=inputs,
        start=params_of(model),
    )  # fmt: skip
    assert {kind for m in found for kind in m.kinds} == {"converted"}
    for distance in ("cosine", "l1"):
        stale = fmean(getattr(m.stale, distance) for m in found)
        used = fmean(getattr(m.used, distance) for m in found)
        assert used < 0.7 * stale


def test_a_check_takes_token_ids():
    dataset = data.load("topics")
    model, inputs = text_model(dataset, dim=6, channels=8)
    method = Convert(inversion=Inversion(iterations=4, warm_iterations=2, start="grey"))
    told = check_conversion(
        model, local=LOCAL, inputs=inputs, data=(dataset.x_train[:400], dataset.y_train[:400]),
        clients=4, samples=10, staleness=2, conversions=2, method=method,
    )  # fmt: skip
    assert len(told.measured) == 2
    assert not told.random_data


def test_data_that_the_model_does_not_embed_is_refused():
    dataset = data.load("topics")
    model, inputs = text_model(dataset)
    x, y = dataset.x_train[:20], dataset.y_train[:20]
    with pytest.raises(ConfigError, match="token ids from 0 to 220"):
        clients_of([(x + 220, y)], inputs=inputs, tokens=model)
    with pytest.raises(ConfigError, match="inputs of the shape"):
        clients_of([(x[:, :9], y)], inputs=inputs, tokens=model)
    with pytest.raises(ConfigError, match="TokenModel"):
        clients_of([(x, y)], inputs=InputSpec((20,), 6))
    assert clients_of([(x, y)], inputs=replace(inputs), tokens=model)[0].x is not None


def test_random_tokens_differ_by_class():
    y = torch.arange(300) % 3
    x = random_tokens(31, (8,), y, 3, seed=0)
    assert torch.equal(x, random_tokens(31, (8,), y, 3, seed=0))
    assert (int(x.min()), int(x.max())) == (1, 30)
    own = [float(((x[y == c] - 1) // 10 == c).float().mean()) for c in range(3)]
    assert all(0.55 < share < 0.78 for share in own)  # half, and a third of the other half
