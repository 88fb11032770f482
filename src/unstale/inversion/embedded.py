"""What surrogates of a model of token ids look like: vectors in its embedding's space."""

import torch
from torch import nn

from unstale.errors import ConfigError
from unstale.inversion.surrogate import InputSpec
from unstale.training.token_models import TokenModel


def embedded_inputs(model: nn.Module, shape: tuple[int, ...], classes: int) -> InputSpec:
    """Return what one input of a surrogate looks like, for a model of token ids.

    Args:
        model: A `TokenModel`.
        shape: The shape of one input in token ids, such as `(length,)`.
        classes: The number of classes.

    Raises:
        ConfigError: If the model does not say how it embeds tokens.
    """
    if not isinstance(model, TokenModel):
        raise ConfigError(
            f"A model of token ids should have `token_embedding` and `embed`. Found "
            f"{type(model).__name__} without them. See `unstale.training.token_models.TokenModel`."
        )
    weight = model.token_embedding.weight
    tokens = torch.zeros(1, *shape, dtype=torch.int64, device=weight.device)
    with torch.no_grad():
        vectors = model.embed(tokens)
    return InputSpec(tuple(vectors.shape[1:]), classes)
