"""Networks of the zoo that are not in `unstale.models`: smooth CNNs, a GRU, a transformer.

All are built of plain layers and products, so that they can be differentiated twice and
trained for several clients at once. That is why the GRU is not `nn.GRU`, whose CUDA kernel
has no second derivative, and attention is not a fused kernel.

The GRU and the transformer read tokens, which `tokens` cuts from an input, each embedded by a
linear layer. So their inputs are numbers, as all inputs of surrogates are.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unstale import models

ACTIVATIONS: dict[str, type[nn.Module]] = {"elu": nn.ELU, "tanh": nn.Tanh, "gelu": nn.GELU}
POOLS: dict[str, type[nn.Module]] = {"max": nn.MaxPool2d, "mean": nn.AvgPool2d}
HEADS = 2


def cnn(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    activation: str = "elu",
    pool: str = "none",
    hidden: int = 64,
) -> nn.Module:
    """Build a CNN for images: two 5×5 convolutions (16, 32 channels) and two linear layers.

    With `pool = "none"` convolutions have stride 2, else a pooling of `POOLS` follows each.
    """
    act = ACTIVATIONS[activation]
    layers: list[nn.Module] = []
    for inputs, outputs in ((input_shape[0], 16), (16, 32)):
        stride = 2 if pool == "none" else 1
        layers += [nn.Conv2d(inputs, outputs, 5, stride, padding=2), act()]
        if pool != "none":
            layers.append(POOLS[pool](2, ceil_mode=True))
    height, width = (math.ceil(side / 4) for side in input_shape[1:])
    layers += [nn.Flatten(), nn.Linear(32 * height * width, hidden), act()]
    return nn.Sequential(*layers, nn.Linear(hidden, num_classes))


def token_shape(input_shape: tuple[int, ...], window: int) -> tuple[int, int]:
    """Return how many tokens `tokens` cuts from an input, and the values in each.

    Example:
        >>> token_shape((1, 28, 28), 2), token_shape((6, 128), 8), token_shape((225,), 15)
        ((14, 56), (16, 48), (15, 15))
    """
    along = input_shape[1] if len(input_shape) > 1 else input_shape[0]
    return along // window, math.prod(input_shape) // along * window


def tokens(x: Tensor, window: int) -> Tensor:
    """Return inputs as [batch, length, features]; what does not fill a window is left out.

    A token is `window` rows of an image, `window` steps of all channels of a time series
    [batch, channels, steps], or `window` values of a vector.
    """
    if x.ndim == 2:
        x = x.unsqueeze(1)
    x = x.transpose(1, 2)  # what tokens are cut along comes first
    length = x.shape[1] // window
    return x[:, : length * window].reshape(len(x), length, -1)


class Gru(nn.Module):
    """A gated recurrent unit over embedded tokens; its last state is classified."""

    def __init__(self, features: int, num_classes: int, window: int, hidden: int) -> None:
        super().__init__()
        self.window = window
        self.embed = nn.Linear(features, hidden)
        self.from_token = nn.Linear(hidden, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes]."""
        given = self.from_token(torch.tanh(self.embed(tokens(x, self.window))))
        state = torch.zeros_like(given[:, 0, : self.head.in_features])
        for step in given.unbind(1):
            reset_in, update_in, new_in = step.chunk(3, -1)
            reset_by, update_by, new_by = self.from_state(state).chunk(3, -1)
            update = torch.sigmoid(update_in + update_by)
            new = torch.tanh(new_in + torch.sigmoid(reset_in + reset_by) * new_by)
            state = update * state + (1 - update) * new
        logits: Tensor = self.head(state)
        return logits


class _Layer(nn.Module):
    """One layer of the transformer: attention and a small MLP, each added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return [batch, length, width]."""
        batch, length, width = x.shape
        split = self.qkv(self.norm1(x)).reshape(batch, length, 3, HEADS, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Two layers of attention over embedded tokens; the mean over tokens is classified."""

    def __init__(
        self, length: int, features: int, num_classes: int, window: int, hidden: int
    ) -> None:
        super().__init__()
        self.window = window
        self.embed = nn.Linear(features, hidden)
        self.place = nn.Parameter(torch.randn(length, hidden) * 0.1)
        self.layers = nn.Sequential(_Layer(hidden), _Layer(hidden))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes]."""
        x = self.layers(self.embed(tokens(x, self.window)) + self.place)
        logits: Tensor = self.head(self.norm(x).mean(1))
        return logits


def gru(
    input_shape: tuple[int, ...], num_classes: int, *, window: int = 1, hidden: int = 32
) -> nn.Module:
    """Build a `Gru` for any input; `window` is as in `tokens`."""
    return Gru(token_shape(input_shape, window)[1], num_classes, window, hidden)


def transformer(
    input_shape: tuple[int, ...], num_classes: int, *, window: int = 1, hidden: int = 32
) -> nn.Module:
    """Build a `Transformer` for any input; `window` is as in `tokens`."""
    return Transformer(*token_shape(input_shape, window), num_classes, window, hidden)


for _name, _builder in {"cnn": cnn, "gru": gru, "transformer": transformer}.items():
    models.register(_name, _builder, force=True)
