"""Models of token ids: training on ids, and what a surrogate of vectors trains of them."""

import pytest
import torch
from torch import nn

from unstale import models
from unstale.errors import ModelError
from unstale.params import params_of
from unstale.seeding import generator
from unstale.training.local import LocalSpec, local_update
from unstale.training.model_checks import model_faults
from unstale.training.token_models import (
    TokenModel,
    embedding_names,
    surrogate_names,
    without_embedding,
)
from unstale.training.vectorised import StackedClients, StackedTraining

WORDS, LENGTH, CLASSES = 12, 6, 3
LOCAL = LocalSpec(lr=0.3, momentum=0.5, epochs=2)


def text_cnn(**settings):
    settings = {"vocabulary": WORDS, "dim": 4, "channels": 5, **settings}
    return models.build("text_cnn", (LENGTH,), CLASSES, **settings).double()


def texts(samples=7, seed=0):
    rng = generator(seed, "test", "texts")
    x = torch.randint(WORDS - 2, (samples, LENGTH), generator=rng)  # the last two never occur
    return x, torch.arange(samples) % CLASSES


def test_which_weights_no_surrogate_trains():
    model = text_cnn()
    assert isinstance(model, TokenModel)
    assert embedding_names(model) == {"token_embedding.weight"}
    expected = ("conv.weight", "conv.bias", "fc.weight", "fc.bias")
    assert surrogate_names(model) == expected
    assert tuple(without_embedding(model, params_of(model))) == expected


def test_other_models_are_left_alone():
    class Positions(nn.Module):
        """Has an embedding, but not of its inputs."""

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(3, 3)

        def forward(self, x):
            return x + self.embedding(torch.arange(3))

    model = Positions()
    params = params_of(model)
    assert embedding_names(model) == frozenset()
    assert surrogate_names(model) == ("embedding.weight",)
    assert without_embedding(model, params) is params


def test_a_model_that_is_all_embedding_is_refused():
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.token_embedding = nn.Embedding(5, 3)

        def embed(self, tokens):
            return self.token_embedding(tokens)

        def forward(self, x):
            return (x if x.is_floating_point() else self.embed(x)).mean(1)

    with pytest.raises(ModelError, match="behind its embedding"):
        surrogate_names(Bag())


def test_a_client_s_update_is_that_of_one_hot_words():
    """The embedding as a matrix product, trained by torch.optim, is the oracle."""
    model, (x, y) = text_cnn(), texts()
    start = params_of(model)
    found = local_update(model, start, x, y, LOCAL)
    one_hot = nn.functional.one_hot(x, WORDS).double()
    weights = {n: p.clone().requires_grad_() for n, p in start.items()}
    optimizer = torch.optim.SGD(weights.values(), lr=0.3, momentum=0.5)
    rest = {n: p for n, p in weights.items() if n != "token_embedding.weight"}
    real_word = (torch.arange(WORDS) > 0).double().unsqueeze(1)  # padding stays at zero
    for _ in range(2):
        vectors = (one_hot @ (weights["token_embedding.weight"] * real_word)).transpose(1, 2)
        logits = torch.func.functional_call(model, rest, (vectors,), strict=False)
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits, y).backward()
        optimizer.step()
    for name, delta in found.items():
        assert torch.allclose(delta, weights[name].detach() - start[name], atol=1e-12), name
    moved = found["token_embedding.weight"].abs().sum(1) > 0
    assert moved.tolist() == [0 < word < WORDS - 2 for word in range(WORDS)]


@pytest.mark.parametrize("frozen", [(), ("token_embedding",)], ids=["trained", "frozen"])
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_stacked_clients_train_as_one_by_one(frozen, pooling):
    model = text_cnn(pooling=pooling)
    models.freeze(model, frozen)
    start = params_of(model)
    data = [texts(seed=i) for i in range(3)]
    stacked = StackedClients(
        {n: p.expand(3, *p.shape) for n, p in start.items()},
        {},
        torch.stack([x for x, _ in data]),
        torch.stack([y for _, y in data]),
    )
    trained = StackedTraining(model, LOCAL)(stacked)
    for i, (x, y) in enumerate(data):
        expected = local_update(model, start, x, y, LOCAL)
        for name, delta in expected.items():
            assert torch.allclose(trained[name][i] - start[name], delta, atol=1e-12), name
    assert bool(expected["token_embedding.weight"].any()) == (not frozen)


@pytest.mark.parametrize(
    ("settings", "says"), [({"max_norm": 1.0}, "max_norm=1.0"), ({"sparse": True}, "sparse=False")]
)
def test_embeddings_that_no_update_describes_are_refused(settings, says):
    model = nn.Sequential(nn.Embedding(4, 2, **settings), nn.Flatten(), nn.Linear(4, 2))
    assert any(says in fault for fault in model_faults(model))
