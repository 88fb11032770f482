"""Models of token ids: which layer embeds the tokens, and what a surrogate can train of them.

Token ids are integers and have no gradient, so a surrogate of text cannot hold them. It holds
vectors instead, and the model takes these in place of ids, behind its embedding layer. Training
on vectors never touches the embedding's own weights: no surrogate explains their change.
"""

from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from unstale.errors import ModelError
from unstale.params import Params
from unstale.training.model_checks import trainable_names


@runtime_checkable
class TokenModel(Protocol):
    """A model whose inputs are token ids, and which takes their vectors as well.

    `model(tokens)` and `model(model.embed(tokens))` should be the same: `forward` embeds integer
    inputs and takes floating-point ones as vectors. `unstale.training.as_token_model` makes one
    of a plain model with an `nn.Embedding`.
    """

    token_embedding: nn.Embedding
    """The layer that turns a token id into a vector."""

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the vectors of token ids `[samples, length]` as the layers behind take them."""
        ...


def embedding_names(model: nn.Module) -> frozenset[str]:
    """Return the names of the embedding's weights; none for a model that is no `TokenModel`.

    Example:
        >>> embedding_names(nn.Linear(2, 2))
        frozenset()
    """
    if not isinstance(model, TokenModel):
        return frozenset()
    own = {id(p) for p in model.token_embedding.parameters()}
    return frozenset(name for name, p in model.named_parameters() if id(p) in own)


def surrogate_names(model: nn.Module) -> tuple[str, ...]:
    """Check the model and return the names of the parameters that a surrogate trains.

    These are all that clients train, save for the weights of a token embedding.

    Raises:
        ModelError: If the model cannot be trained faithfully, or nothing is left to train.

    Example:
        >>> surrogate_names(nn.Linear(2, 2))
        ('weight', 'bias')
    """
    names = trainable_names(model)
    embedding = embedding_names(model)
    found = tuple(name for name in names if name not in embedding)
    if not found:
        raise ModelError(
            "A model of token ids should train layers behind its embedding. Found only "
            f"{', '.join(names)}. Without such layers no surrogate of vectors can be fitted."
        )
    return found


def without_embedding(model: nn.Module, params: Params) -> Params:
    """Return the tensors that are no weights of a token embedding; `params` if there is none."""
    embedding = embedding_names(model)
    if not embedding:
        return params
    return {name: p for name, p in params.items() if name not in embedding}
