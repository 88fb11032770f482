"""Clients of an experiment that train by another recipe than the server assumes.

For tests of what the server notices (`unstale.methods.conversion.recipe_check`): a table
`[other_local]` with the settings of `[local]` that differ, and which `clients` have them.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unstale.errors import ConfigError
from unstale.experiment.strict import build, checked_table, fit
from unstale.sim import Scenario
from unstale.training.spec import LocalSpec


@dataclass(frozen=True, slots=True)
class OtherLocal:
    """The recipe of some clients, of which the server does not know."""

    clients: tuple[int, ...]
    """The clients, from 0; all of them if empty."""
    local: LocalSpec
    """Their recipe."""

    @classmethod
    def parse(cls, table: object, local: LocalSpec) -> "OtherLocal | None":
        """Return what a table `[other_local]` says; None if there is none.

        Args:
            table: The table: settings that differ from `local`, and `clients`.
            local: The recipe of all others.
        """
        if table is None:
            return None
        given = dict(checked_table(table, "other_local"))
        clients = fit(given.pop("clients", ()), tuple[int, ...], "other_local.clients")
        base = dataclasses.asdict(local)
        if {"steps", "epochs"} & set(given):  # one is given instead of the other
            base |= {"steps": None, "epochs": None}
        spec: LocalSpec = build(LocalSpec, {**base, **given}, "other_local")
        return cls(clients, spec)

    def to_json(self) -> dict[str, Any]:
        """Return the table that `parse` reads back."""
        return {"clients": list(self.clients), **dataclasses.asdict(self.local)}

    def by_client(self, scenario: Scenario) -> Mapping[int, LocalSpec]:
        """Return the recipe of each of these clients.

        Raises:
            ConfigError: If the scenario has no such client.
        """
        chosen = self.clients or tuple(range(scenario.num_clients))
        if wrong := [c for c in chosen if not 0 <= c < scenario.num_clients]:
            raise ConfigError(
                f"`other_local.clients` should be from 0 to {scenario.num_clients - 1}. "
                f"Found {wrong}."
            )
        return dict.fromkeys(chosen, self.local)
