"""Five blobs in eight dimensions and softmax regression, in NumPy: what a node does."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

INPUTS, CLASSES = 8, 5
LR, EPOCHS = 0.1, 5
SAMPLES = 10
# The classes of each partition, `SAMPLES` for each mention: a little of all, and much of some.
# So the accuracy does not depend on who happened to answer last.
HELD: tuple[tuple[int, ...], ...] = (
    (0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4),
    (2, 2, 2, 2, 3, 3, 3, 3, 0, 1, 4),
    (4, 4, 4, 4, 4, 4, 0, 1, 2, 3),
)


def blobs(classes: tuple[int, ...], seed: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return samples of some classes; they overlap, so that nobody reaches 1.0."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, INPUTS))
    y = np.repeat(np.array(classes, dtype=np.int64), SAMPLES)
    noise = np.random.default_rng([1, seed]).normal(scale=0.8, size=(len(y), INPUTS))
    return (centres[y] + noise).astype(np.float32), y


def partition(number: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return what a node holds."""
    return blobs(HELD[number], seed=number)


def train(weights: dict[str, Array], number: int) -> dict[str, Array]:
    """Return weights after some steps of gradient descent on what a node holds."""
    x, y = partition(number)
    weight, bias = weights["weight"].copy(), weights["bias"].copy()
    for _ in range(EPOCHS):
        error = _softmax(x @ weight.T + bias) - np.eye(CLASSES, dtype=np.float32)[y]
        weight -= np.float32(LR / len(y)) * (error.T @ x)
        bias -= np.float32(LR) * error.mean(axis=0)
    return {"weight": weight, "bias": bias}


def accuracy(weights: dict[str, Array]) -> dict[str, float]:
    """Return the accuracy on samples that nobody holds."""
    x, y = blobs(tuple(range(CLASSES)) * 20, seed=99)
    right = (x @ weights["weight"].T + weights["bias"]).argmax(axis=1) == y
    return {"accuracy": float(right.mean())}


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares
