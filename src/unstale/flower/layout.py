"""The arrays that travel: what a model's weights look like as Flower carries them."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor, nn

from unstale.errors import ConfigError
from unstale.params import Params


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """What one array of a reply should look like."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def num_bytes(self) -> int:
        """What its entries take."""
        return math.prod(self.shape) * self.dtype.itemsize


class Layout:
    """The names, shapes and types of a model's state, and how weights become a record.

    Clients load what they get with `load_state_dict`, so all names of the state travel:
    the parameters, other names of shared ones, and buffers, which never change.

    Raises:
        ConfigError: If the state holds something that Flower cannot carry.

    Example:
        >>> layout = Layout(nn.Linear(2, 1))
        >>> layout.names, layout.arrays["bias"].shape
        (('weight', 'bias'), (1,))
    """

    def __init__(self, model: nn.Module) -> None:
        first = {id(p): name for name, p in model.named_parameters()}
        every = dict(model.named_parameters(remove_duplicate=False))
        self._parameter_of: dict[str, str] = {}
        self._constants: dict[str, Array] = {}
        self.arrays: dict[str, ArrayShape] = {}
        for name, value in model.state_dict().items():
            if not isinstance(value, Tensor):
                raise ConfigError(
                    "The state of a model on Flower should be made of tensors. Found "
                    f"{type(value).__name__} in `{name}`. Keep it out of the state."
                )
            if name in every:
                self._parameter_of[name] = first[id(every[name])]
            else:
                self._constants[name] = Array(_as_numpy(name, value))
            self.arrays[name] = ArrayShape(
                tuple(value.shape), _as_numpy(name, value.new_empty(0)).dtype
            )
        self.names = tuple(self.arrays)
        self.parameters = tuple(name for name, p in self._parameter_of.items() if name == p)
        # A parameter that is no part of the state (a module may say so) could never be sent.
        if missing := sorted(set(first.values()) - set(self.parameters)):
            raise ConfigError(
                f"Every parameter should be in the model's state. Missing: {missing[:5]}."
            )

    @property
    def num_bytes(self) -> int:
        """What all arrays take."""
        return sum(array.num_bytes for array in self.arrays.values())

    def encode(self, params: Params) -> ArrayRecord:
        """Return weights as the record that clients get."""
        sent = {name: Array(_as_numpy(name, params[name])) for name in self.parameters}
        return ArrayRecord(
            {
                name: sent[self._parameter_of[name]]
                if name in self._parameter_of
                else self._constants[name]
                for name in self.names
            }
        )


def _as_numpy(name: str, value: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    try:
        return np.ascontiguousarray(value.detach().cpu().numpy()).reshape(tuple(value.shape))
    except (TypeError, RuntimeError) as error:
        raise ConfigError(
            f"Flower carries arrays of NumPy's types. `{name}` is {value.dtype}, which NumPy "
            "does not know. Use float32, float64 or float16."
        ) from error


def weights_in(record: ArrayRecord, layout: Layout, like: nn.Module) -> dict[str, Tensor]:
    """Return a record of our own, such as the initial arrays, as parameters of a model.

    Raises:
        ConfigError: If it does not fit the model.
    """
    wanted = dict(like.named_parameters())
    found = {name: torch.from_numpy(array.numpy()) for name, array in record.items()}
    odd = sorted({*found} ^ {*layout.names}) or [
        n for n in layout.parameters if found[n].shape != wanted[n].shape
    ]
    if odd:
        raise ConfigError(
            "`initial_arrays` should be the state of the model that the strategy was given. "
            f"Found other names or shapes in {odd[:5]}. Pass the same model, or leave it out."
        )
    return {name: found[name].to(wanted[name]) for name in layout.parameters}
