"""Generated data for smoke runs: small, separable by class, in the shapes of the real sets."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from unstale import data
from unstale.seeding import derive, generator

SHAPES: dict[str, tuple[int, ...]] = {
    "smoke_images": (1, 16, 16),  # the smallest that LeNet takes
    "smoke_looks": (1, 16, 16),  # another look of these classes, for drift
    "smoke_photos": (3, 8, 8),  # the smallest that ResNet-18 takes
    "smoke_series": (3, 32),
}
STANDS_FOR = {
    "mnist": "smoke_images",
    "fashion_mnist": "smoke_images",
    "cifar10": "smoke_photos",
    "disaster": "smoke_photos",
    "hapt": "smoke_series",
    "extrasensory": "smoke_series",
    "digits": "digits",
}
"""By data set: what takes its place in a smoke run. Digits are embedded and stay."""
CLASSES, PER_CLASS, USERS = 10, 24, 8


def generated(name: str) -> data.Dataset:
    """Return a set of noisy patterns, one for each class; series also belong to users in turn.

    Example:
        >>> made = generated("smoke_series")
        >>> made.input_shape, made.num_classes, len(made.y_train)
        ((3, 32), 10, 240)
    """
    shape = SHAPES[name]
    rng = generator(derive(0, "smoke", name), "patterns")
    patterns = torch.rand(CLASSES, *shape, generator=rng)
    y = torch.arange(CLASSES * PER_CLASS * 2) % CLASSES
    x = (0.7 * patterns[y] + 0.3 * torch.rand(len(y), *shape, generator=rng)).clamp(0, 1)
    half = len(y) // 2
    # As in the real sets: people recorded the series, nobody the images.
    users = (torch.arange(half) // CLASSES) % USERS if name == "smoke_series" else None
    classes = tuple(str(k) for k in range(CLASSES))
    return data.Dataset(
        name, x[:half], y[:half], x[half:], y[half:], classes, 0.0, 1.0, users_train=users
    )


@contextmanager
def registered() -> Iterator[None]:
    """Register the generated sets for as long as the context lasts."""
    from unstale.data.registry import SOURCES

    for name in SHAPES:
        layout = data.Layout(lambda files, name=name: generated(name))  # type: ignore[misc]
        data.register(name, data.Source("generated for smoke runs", (layout,)), force=True)
    try:
        yield
    finally:
        for name in SHAPES:
            SOURCES.pop(name, None)
