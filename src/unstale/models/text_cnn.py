"""A small convolutional network for text, as token ids or as their vectors."""

from torch import Tensor, nn
from torch.nn import functional as F

from unstale.errors import ConfigError
from unstale.models.registry import check_counts, check_shape

PADDING = 0
"""The token id that fills texts up to one length; its vector is zero and stays so."""
POOLINGS = ("mean", "max")


class TextCnn(nn.Module):
    """An embedding, one convolution over words with GELU, pooling over time, a linear layer.

    It is a `unstale.training.token_models.TokenModel`: floating-point inputs
    `[batch, dim, length]` are taken as vectors of words, which is what surrogates hold.
    """

    def __init__(
        self, vocabulary: int, num_classes: int, dim: int, channels: int, window: int, pooling: str
    ) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, dim, padding_idx=PADDING)
        self.conv = nn.Conv1d(dim, channels, kernel_size=window)
        self.fc = nn.Linear(channels, num_classes)
        self._takes_max = pooling == "max"

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the vectors [batch, dim, length] of token ids [batch, length]."""
        vectors: Tensor = self.token_embedding(tokens)
        return vectors.transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes] for ids [batch, length] or vectors of `embed`."""
        vectors = x if x.is_floating_point() else self.embed(x)
        found = F.gelu(self.conv(vectors))
        logits: Tensor = self.fc(found.amax(-1) if self._takes_max else found.mean(-1))
        return logits


def text_cnn(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    vocabulary: int = 0,
    dim: int = 32,
    channels: int = 64,
    window: int = 3,
    pooling: str = "mean",
) -> nn.Module:
    """Build a `TextCnn`.

    Args:
        input_shape: [length] of texts, at least as long as the window.
        num_classes: Number of logits.
        vocabulary: Number of token ids; an experiment takes it from its data set.
        dim: Length of a word's vector.
        channels: Output channels of the convolution.
        window: Number of words that the convolution sees at once.
        pooling: What is taken over all places of a text: the `mean`, or the `max`, which learns
            faster but is harder to invert, since few places have a gradient.
    """
    check_counts("dim, channels and window of model 'text_cnn'", [dim, channels, window])
    fits = len(input_shape) == 1 and input_shape[0] >= window
    check_shape("text_cnn", fits, f"token ids [length] of {window} or more", input_shape)
    if type(vocabulary) is not int or vocabulary < 2:
        raise ConfigError(
            "vocabulary of model 'text_cnn' should be the number of token ids, 2 or more. Found "
            f"{vocabulary!r}. Choose a data set of text, or give it."
        )
    if pooling not in POOLINGS:
        raise ConfigError(
            f"pooling of model 'text_cnn' should be one of: {', '.join(POOLINGS)}. "
            f"Found {pooling!r}."
        )
    return TextCnn(vocabulary, num_classes, dim, channels, window, pooling)
