"""as_token_model: makes a `TokenModel` of a plain model with one embedding layer."""

import copy
from typing import cast

import torch
from torch import Tensor, nn

from unstale.errors import ModelError
from unstale.training.token_models import TokenModel


class _PassingEmbedding(nn.Embedding):
    """An embedding layer that takes vectors as well, and leaves them as they are."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors of token ids; vectors stay."""
        return tokens if tokens.is_floating_point() else super().forward(tokens)


class _WithEmbedding:
    """What `TokenModel` asks for, for a model whose only embedding is a `_PassingEmbedding`."""

    @property
    def token_embedding(self) -> nn.Embedding:
        """The layer that turns a token id into a vector."""
        layers = cast(nn.Module, self).modules()
        return next(layer for layer in layers if isinstance(layer, _PassingEmbedding))

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the vectors of token ids."""
        found: Tensor = self.token_embedding(tokens)
        return found


def as_token_model(model: nn.Module, tokens: Tensor) -> nn.Module:
    """Return a copy of a model of token ids that takes their vectors as well.

    The model should have one `nn.Embedding`, and use token ids for nothing else. Names of weights
    stay. A `TokenModel` is returned as it is.

    Args:
        model: A model whose inputs are token ids.
        tokens: A few inputs `[samples, ...]`, on which both kinds are compared.

    Raises:
        ModelError: If the model has no embedding or several, or if ids and their vectors do not
            give the same.

    Example:
        >>> texts = torch.tensor([[1, 2, 3], [0, 0, 4]])
        >>> model = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 3))
        >>> both = as_token_model(model, texts)
        >>> torch.equal(both(both.embed(texts)), model(texts))
        True
    """
    if isinstance(model, TokenModel):
        return model
    layers = [name for name, m in model.named_modules() if isinstance(m, nn.Embedding)]
    if len(layers) != 1:
        raise _unfit(f"{len(layers)} embedding layers" + (f": {', '.join(layers)}" * bool(layers)))
    made = copy.deepcopy(model)
    layer = made.get_submodule(layers[0])
    kind = type(made)
    if type(layer) is not nn.Embedding or layer is made:
        raise _unfit(f"an embedding of its own kind, {type(layer).__name__}")
    layer.__class__ = _PassingEmbedding
    made.__class__ = type(kind.__name__, (_WithEmbedding, kind), {"__module__": kind.__module__})
    was_training = made.training
    made.eval()
    try:
        with torch.no_grad():
            known = made(tokens)
            found = made(made.embed(tokens))  # type: ignore[operator]
    except Exception as error:
        raise _unfit(f"that it fails with vectors: {type(error).__name__}: {error}") from error
    finally:
        made.train(was_training)
    if not torch.allclose(known, found, rtol=1e-4, atol=1e-5):
        raise _unfit("that token ids and their vectors give different outputs")
    return made


def _unfit(found: str) -> ModelError:
    return ModelError(
        "Conversion of text needs a model that takes token ids and their vectors: with one "
        f"`nn.Embedding`, and ids used for nothing else, such as masks. Found {found}. Change the "
        "model, or give it `token_embedding` and `embed`: see "
        "`unstale.training.token_models.TokenModel`."
    )
