"""Data and models of one's own: functions that an experiment file names, or objects of a program.

An experiment file names a function as `factory = "module:function"`; other keys of the table
are its keyword arguments. The module is imported from the folder of the file, from the current
folder, or from where Python finds it.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from unstale.data import Dataset, as_dataset
from unstale.errors import ConfigError, UnstaleError
from unstale.experiment.importing import function_named, importing_from
from unstale.seeding import derive

# What a model's function may ask for, by the names of its parameters.
OFFERED = ("input_shape", "num_classes", "vocabulary")


@dataclass(frozen=True, slots=True)
class Factory:
    """A function that makes data or a model, as an experiment file names it."""

    place: str
    """The function, as `module:function`."""
    where: str
    """The key that names it, for messages."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its keyword arguments."""
    folders: tuple[str, ...] = ()
    """Folders to import the module from, before the current one."""

    def call(self, **offered: Any) -> Any:
        """Import the function and call it.

        Args:
            offered: Arguments that the function gets if it has parameters of these names.

        Raises:
            ConfigError: If it cannot be imported, does not take its settings, or fails.
        """
        with importing_from(self.folders):
            function = function_named(self.place, self.where, self.folders)
            return called(function, self.settings, offered, f"`{self.where}` {self.place}")


OwnModel = Factory | nn.Module | Callable[..., nn.Module]


def called(
    function: Callable[..., Any], settings: Mapping[str, Any], offered: Mapping[str, Any], what: str
) -> Any:
    """Call a function of the user's.

    Raises:
        ConfigError: If it does not take its arguments, or fails.
    """
    signature = inspect.signature(function)
    found = {name: value for name, value in offered.items() if name in signature.parameters}
    try:
        signature.bind(**{**found, **settings})
    except TypeError as error:
        can = f"{', '.join(offered)}, or " if offered else ""
        raise ConfigError(
            f"{what} should take {can}the settings that are given with it, and no more. "
            f"Found: {error}. Give its other parameters a default, or a setting."
        ) from error
    try:
        return function(**{**found, **settings})
    except UnstaleError:
        raise
    except Exception as error:
        raise ConfigError(f"{what} failed with {type(error).__name__}: {error}") from error


def own_dataset(own: Factory | Dataset) -> Dataset:
    """Return data of one's own.

    Raises:
        ConfigError: If its function cannot be called.
        DataError: If what it returns is no data set.
    """
    if isinstance(own, Dataset):
        return own
    return as_dataset(own.call(), name=own.place)


def own_model(
    own: OwnModel,
    settings: Mapping[str, Any],
    input_shape: tuple[int, ...],
    num_classes: int,
    seed: int,
    words: int | None = None,
) -> nn.Module:
    """Return a model of one's own: a copy, or built with initial weights from the seed.

    Args:
        own: A function that makes the model (a class will do), or the model itself, whose
            weights are the initial ones with every seed.
        settings: Keyword arguments of the function.
        input_shape: The shape of one input.
        num_classes: Number of logits.
        seed: Seed of the initial weights.
        words: The number of token ids, if inputs are these.

    Raises:
        ConfigError: If the function cannot be called or returns no model.
    """
    if isinstance(own, nn.Module):
        return copy.deepcopy(own)
    offered = dict(zip(OFFERED, (input_shape, num_classes, words), strict=True))
    # As `models.build` does: on the CPU, by the global generator, which is restored afterwards.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(derive(seed, "model", "own"))
        if isinstance(own, Factory):
            what, model = f"`{own.where}` {own.place}", own.call(**offered)
        else:
            what = f"`model` {getattr(own, '__name__', type(own).__name__)}"
            model = called(own, settings, offered, what)
    if not isinstance(model, nn.Module):
        raise ConfigError(f"{what} should return an nn.Module. Found {type(model).__name__}.")
    return model


def check_fit(model: nn.Module, dataset: Dataset) -> None:
    """Raise ConfigError if a model does not take the data's inputs, or has other classes."""
    x = dataset.x_train[:2]
    asked = copy.deepcopy(model).to("cpu").eval()
    try:
        with torch.no_grad():
            out = asked(x)
    except Exception as error:
        raise ConfigError(
            f"The model should take the inputs of the data, of shape {dataset.input_shape} and "
            f"type {x.dtype}. Found {type(error).__name__}: {error}. Reshape the inputs, or change "
            "the model."
        ) from error
    wanted = (len(x), dataset.num_classes)
    found = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
    if found != wanted:
        raise ConfigError(
            f"The model should return one logit for each of the {dataset.num_classes} classes: "
            f"shape {wanted} for {len(x)} inputs. Found {found}."
        )
