"""Running statistics that simulated clients keep to themselves (`LocalSpec.buffers = "local"`).

Each client trains with its own and sends none. A model that is to be evaluated for all clients
takes the mean of what they have, by their examples.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from unstale.params import Params
from unstale.training.client import (
    averaged_statistics,
    statistics_of,
    trained_statistics,
    without,
)
from unstale.training.spec import LocalSpec


class LocalStatistics:
    """What each client keeps; empty for a model without, or if statistics are averaged.

    Args:
        initial: The statistics before the first training, by name.
    """

    def __init__(self, initial: Params) -> None:
        self._initial = dict(initial)
        self._of: dict[int, dict[str, Tensor]] = {}
        self._examples: dict[int, int] = {}

    @classmethod
    def of(cls, model: nn.Module, local: LocalSpec) -> "LocalStatistics":
        """Return those of a model whose clients train by a recipe."""
        return cls(statistics_of(model) if local.buffers == "local" else {})

    @property
    def names(self) -> frozenset[str]:
        """The names of the statistics."""
        return frozenset(self._initial)

    def added_to(self, params: Params, client: int | None = None) -> Params:
        """Return weights with the statistics of a client, or with the mean of all of them."""
        if not self._initial:
            return params
        if client is not None:
            return {**params, **self._of.get(client, self._initial)}
        kept = [(self._of[c], float(self._examples[c])) for c in sorted(self._of)]
        return {**params, **averaged_statistics(self._initial, kept)}

    def kept(self, client: int, params: Params, delta: Params, examples: int) -> Params:
        """Keep a client's statistics after its training; return what it sends.

        Args:
            client: The client.
            params: What its training began with.
            delta: What it changed.
            examples: How many examples it has.
        """
        if not self._initial:
            return delta
        self._of[client] = trained_statistics(params, delta, self._initial)
        self._examples[client] = examples
        return without(delta, self._initial)

    def to_tree(self) -> dict[str, Any]:
        """Return all of it, for a checkpoint."""
        return {
            str(client): {"values": dict(values), "examples": self._examples[client]}
            for client, values in sorted(self._of.items())
        }

    def restore(self, tree: Mapping[str, Any]) -> None:
        """Go on from what `to_tree` returned."""
        for client, kept in tree.items():
            self._of[int(client)] = {n: v.to(self._initial[n]) for n, v in kept["values"].items()}
            self._examples[int(client)] = int(kept["examples"])
