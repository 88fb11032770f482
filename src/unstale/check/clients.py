"""The clients of a check: the user's data, or random data of the same shape.

Random data are Gaussian blobs, one for each class, within the bounds of the inputs. So
there is something to learn, and a client that holds few classes differs from the others.
"""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from unstale.check.trial import Client
from unstale.errors import ConfigError
from unstale.inversion import InputSpec
from unstale.seeding import generator
from unstale.sim.partition import DirichletLabels
from unstale.training.token_models import TokenModel

# One client's inputs and labels, or those of all clients together.
Examples = tuple[Tensor, Tensor]

# Few classes per client, as where conversion is needed.
ALPHA = 0.3
MAX_SAMPLES = 100
RANDOM_SAMPLES = 40
# The standard deviations of the centres of blobs and within a blob, as shares of the range.
# Blobs overlap: a model that has learned all there is sends updates that say nothing.
CENTRES, WITHIN = 0.1, 0.2
# The range of inputs without bounds, which are taken to be standardised: two deviations to
# each side.
UNBOUNDED_RANGE = 4.0
# Bounds that were rounded to single precision should not refuse the data.
_ROUNDING = 1e-5


def clients_of(
    data: Examples | Sequence[Examples] | None,
    *,
    inputs: InputSpec,
    clients: int = 20,
    samples: int | None = None,
    seed: int = 0,
    tokens: TokenModel | None = None,
) -> list[Client]:
    """Return the clients of a check.

    Args:
        data: The `(x, y)` of each client; one `(x, y)`, which is split; or None for random data.
        inputs: What one input looks like.
        clients: The number of clients to split data over.
        samples: The number of samples per client. Of a client's own data it takes the first
            ones, by default all; other data is split into at most 100 for each, random data
            into 40.
        seed: Seeds the split and the random data.
        tokens: The model, if it takes token ids: data may then be ids, which it embeds as
            `inputs` says. Random data are vectors.

    Raises:
        ConfigError: If the data is not as `inputs` describes it, or too little.
    """
    for name, value in (("clients", clients), ("samples", samples)):
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigError(f"check: `{name}` should be a positive integer. Found {value!r}.")
    if data is None:
        samples = samples or RANDOM_SAMPLES
        # Half of the data stays over, so that the last client, too, can have any mix.
        y = torch.arange(2 * clients * samples) % inputs.classes
        return _split(random_examples(inputs, y, seed), clients, samples, seed)
    if _is_examples(data):
        _check_examples(data, inputs, "`data`", tokens)
        size = samples or max(1, min(MAX_SAMPLES, len(data[0]) // (2 * clients)))
        return _split(data, clients, size, seed)
    found: list[Client] = []
    for i, examples in enumerate(data):
        if not _is_examples(examples):
            raise ConfigError(
                "check: `data` should be one (x, y) of tensors, a list of one (x, y) per client, "
                f"or None. Found {type(examples).__name__} at place {i}."
            )
        _check_examples(examples, inputs, f"The data of client {i}", tokens)
        found.append(Client(examples[0][:samples], examples[1][:samples]))
    return found


def random_examples(inputs: InputSpec, y: Tensor, seed: int) -> Examples:
    """Return random inputs within the bounds for given classes, and these classes.

    Example:
        >>> spec = InputSpec((1, 8, 8), classes=10, low=0.0, high=1.0)
        >>> x, y = random_examples(spec, torch.arange(20) % 10, seed=0)
        >>> tuple(x.shape), bool(x.min() >= 0)
        ((20, 1, 8, 8), True)
    """
    rng = generator(seed, "check", "data")
    bounded = inputs.low is not None and inputs.high is not None
    span = inputs.unit if bounded else UNBOUNDED_RANGE
    centres = CENTRES * torch.randn(inputs.classes, *inputs.shape, generator=rng)
    within = WITHIN * torch.randn(len(y), *inputs.shape, generator=rng)
    return inputs.clamp(inputs.middle + span * (centres[y] + within)), y


def random_tokens(words: int, shape: tuple[int, ...], y: Tensor, classes: int, seed: int) -> Tensor:
    """Return random token ids for given classes: half of them any, half of the class's own.

    A class's own are an equal share of all ids but 0, which is padding.

    Example:
        >>> random_tokens(100, (5,), torch.arange(20) % 4, 4, seed=0).shape
        torch.Size([20, 5])
    """
    rng = generator(seed, "check", "tokens")
    size = (len(y), *shape)
    own = max(1, (words - 1) // classes)
    first = (y * own).reshape(-1, *[1] * len(shape))
    anything = torch.randint(words - 1, size, generator=rng)
    topical = (first + torch.randint(own, size, generator=rng)) % (words - 1)
    return 1 + torch.where(torch.rand(size, generator=rng) < 0.5, topical, anything)


def _is_examples(data: object) -> TypeGuard[Examples]:
    return (
        isinstance(data, tuple | list)
        and len(data) == 2
        and all(isinstance(part, Tensor) for part in data)
    )


def _check_examples(
    examples: Examples, inputs: InputSpec, what: str, tokens: TokenModel | None
) -> None:
    x, y = examples
    if len(x) == 0 or y.shape != (len(x),):
        raise ConfigError(
            f"check: {what} should have one label for each input, and at least one sample. "
            f"Found inputs {tuple(x.shape)} and labels {tuple(y.shape)}."
        )
    ids = tokens is not None and not x.is_floating_point()
    if tokens is not None and ids:
        words = tokens.token_embedding.num_embeddings
        if int(x.min()) < 0 or int(x.max()) >= words:
            raise ConfigError(
                f"check: {what} should have token ids from 0 to {words - 1}, which the model "
                f"embeds. Found {int(x.min())} to {int(x.max())}."
            )
        with torch.no_grad():
            x = tokens.embed(x[:1].to(tokens.token_embedding.weight.device))
    if x.shape[1:] != inputs.shape:
        raise ConfigError(
            f"check: {what} should have inputs of the shape {inputs.shape}, as `inputs` says. "
            f"Found {tuple(x.shape[1:])}."
        )
    if not x.is_floating_point() or y.is_floating_point():
        raise ConfigError(
            f"check: {what} should have floating-point inputs and whole labels. "
            f"Found {x.dtype} and {y.dtype}. Scale bytes; for token ids the model should be a "
            "`unstale.training.token_models.TokenModel`."
        )
    if int(y.min()) < 0 or int(y.max()) >= inputs.classes:
        raise ConfigError(
            f"check: {what} should have labels from 0 to {inputs.classes - 1}. "
            f"Found {int(y.min())} to {int(y.max())}."
        )
    if ids:  # a vector has the bounds that the embedding gives it
        return
    room = _ROUNDING * inputs.unit
    low = -float("inf") if inputs.low is None else inputs.low - room
    high = float("inf") if inputs.high is None else inputs.high + room
    # NaN fails the comparisons.
    if not (low <= float(x.min()) and float(x.max()) <= high):
        raise ConfigError(
            f"check: {what} should lie within the bounds of `inputs`, {inputs.low} to "
            f"{inputs.high}. Found {float(x.min()):g} to {float(x.max()):g}. Correct the bounds: "
            "the fit looks for inputs within them."
        )


def _split(examples: Examples, clients: int, samples: int, seed: int) -> list[Client]:
    x, y = examples
    partition = DirichletLabels(clients=clients, samples=samples, alpha=ALPHA)
    parts = partition.split(y.cpu().numpy().astype(np.int64), None, seed)
    chosen = [torch.from_numpy(part).to(x.device) for part in parts]
    return [Client(x[part], y[part.to(y.device)]) for part in chosen]
