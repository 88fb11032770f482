"""The text model: token ids in, or the vectors that stand for them."""

import pytest
import torch

from unstale import models
from unstale.errors import ConfigError

X = torch.tensor([[1, 2, 3, 0, 0], [4, 4, 1, 2, 0]])


def build(**settings):
    return models.build("text_cnn", (5,), 3, **{"vocabulary": 6, "dim": 4, **settings})


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_vectors_do_what_their_ids_do(pooling):
    model = build(pooling=pooling)
    vectors = model.embed(X)
    assert vectors.shape == (2, 4, 5)
    assert not vectors[0, :, 3:].any()  # padding
    assert model(X).shape == (2, 3)
    assert torch.equal(model(X), model(vectors))
    assert not torch.equal(model(X), model(X.flip(1)))  # the order of words matters


def test_the_two_poolings_differ():
    assert not torch.equal(build(pooling="mean")(X), build(pooling="max")(X))


def test_which_models_take_tokens():
    assert [name for name in models.names() if models.takes_tokens(name)] == ["text_cnn"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"vocabulary": 0}, "data set of text"),
        ({"pooling": "sum"}, "mean, max. Found 'sum'"),
        ({"window": 6}, "6 or more"),
        ({"dim": 0}, "whole numbers"),
    ],
)
def test_wrong_settings_are_refused(settings, says):
    with pytest.raises(ConfigError, match=says):
        build(**settings)


def test_images_are_refused():
    with pytest.raises(ConfigError, match=r"token ids \[length\]"):
        models.build("text_cnn", (1, 28, 28), 10, vocabulary=9)
