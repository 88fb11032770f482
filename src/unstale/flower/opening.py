"""The server that a run begins or goes on with."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from flwr.app import ArrayRecord
from torch import nn

from unstale.errors import RunError
from unstale.flower.layout import Layout, weights_in
from unstale.flower.ledger import Saved
from unstale.methods.description import describe_method
from unstale.server import Server


def fresh_server(
    model: nn.Module, parts: Mapping[str, Any], initial_arrays: ArrayRecord | None
) -> Server:
    """Return a server of version 0 with the initial arrays, or with the model's own weights.

    Raises:
        ConfigError: If the arrays do not fit the model.
    """
    if initial_arrays is not None:
        weights = weights_in(initial_arrays, Layout(model), model)
        model = copy.deepcopy(model)
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(weights[name])
    return Server(model, **parts)


def rebuilt_server(given: Server, model: nn.Module, saved: Saved) -> Server:
    """Return the server of a checkpoint, with the settings of a given one.

    Raises:
        RunError: If the given one has another method or seed.
        CheckpointError: If the model is another one.
    """
    tree, versions = saved
    now, before = describe_method(given.method), tree["method"]
    for what, found, wanted in (
        ("method", now["name"], before["name"]),
        ("method's parts", now["compensator"], before["compensator"]),
        ("aggregator", now["aggregator"], before["aggregator"]),
        ("seed", given.seed, tree["seed"]),
    ):
        if found != wanted:
            raise RunError(
                f"A run should go on with the {what} it began with: {wanted!r}. Found {found!r}. "
                "Use the same, or choose another folder."
            )
    return Server.from_tree(tree, versions, model, given.settings)
