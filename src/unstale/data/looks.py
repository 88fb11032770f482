"""Joining two data sets that show the same classes in different looks."""

from unstale.data.dataset import Dataset, Look
from unstale.errors import ConfigError


def join_looks(old: Dataset, new: Dataset) -> Dataset:
    """Return a data set with the samples of both, first the old look, then the new one.

    Args:
        old: The data set that clients begin with.
        new: The data set with the other look of its classes.

    Raises:
        ConfigError: If shapes or classes differ, or one of them has two looks or users.

    Example:
        >>> import torch
        >>> from unstale.data import Dataset
        >>> y = torch.tensor([0, 1])
        >>> old = Dataset("dark", torch.zeros(2, 3), y, torch.zeros(2, 3), y, ("a", "b"), 0.0, 1.0)
        >>> new = Dataset("light", torch.ones(2, 3), y, torch.ones(2, 3), y, ("a", "b"), 0.0, 1.0)
        >>> join_looks(old, new).looks
        (Look(name='dark', train=2, test=2), Look(name='light', train=2, test=2))
    """
    import torch

    for what, first, second in (
        ("inputs of one shape", old.input_shape, new.input_shape),
        ("the same classes", old.classes, new.classes),
    ):
        if first != second:
            raise ConfigError(
                f"Two looks should have {what}. Found {first} in '{old.name}' and {second} in "
                f"'{new.name}'. Choose data sets that fit together, such as 'mnist' and "
                f"'blended_mnist'."
            )
    for part in (old, new):
        if part.looks or part.users_train is not None:
            raise ConfigError(
                f"A look should be a data set with one look and without users. Found "
                f"'{part.name}', which has {'two looks' if part.looks else 'users'}."
            )
    return Dataset(
        name=old.name,
        x_train=torch.cat([old.x_train, new.x_train]),
        y_train=torch.cat([old.y_train, new.y_train]),
        x_test=torch.cat([old.x_test, new.x_test]),
        y_test=torch.cat([old.y_test, new.y_test]),
        classes=old.classes,
        low=min(old.low, new.low),
        high=max(old.high, new.high),
        looks=tuple(Look(d.name, len(d.y_train), len(d.y_test)) for d in (old, new)),
    )
