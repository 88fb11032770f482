"""The tables of a scenario, such as `[partition]`: kinds by name, or objects given in Python."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from unstale.experiment.strict import build_kind
from unstale.sim import ScenarioSpec, attackers, availability, cohort, drift, latency, partition

KINDS: dict[str, tuple[Mapping[str, type[Any]], str]] = {
    "partition": (partition.KINDS, "dirichlet"),
    "latency": (latency.KINDS, "intertwined"),
    "cohort": (cohort.KINDS, "all"),
    "availability": (availability.KINDS, "always"),
    "drift": (drift.KINDS, "none"),
    "attackers": (attackers.KINDS, "none"),
}
"""The parts of a scenario: their kinds by name, and the default kind."""
# What each part does: an object that does it is such a part already.
_ACT = {
    "partition": "split",
    "latency": "plan",
    "cohort": "draw",
    "availability": "plan",
    "drift": "plan",
    "attackers": "send",
}


def parse_scenario(table: Mapping[str, Any], *, overlap: bool) -> ScenarioSpec:
    """Return the scenario of an experiment.

    Args:
        table: The experiment; in one from Python a part may be an object.
        overlap: Whether a slow client can be asked again while it works.

    Raises:
        ConfigError: If a key or value is wrong.
    """
    parts = {}
    for key, (kinds, default) in KINDS.items():
        part = table.get(key, {})
        is_part = hasattr(part, _ACT[key])
        parts[key] = part if is_part else build_kind(kinds, part, key, default)
    return ScenarioSpec(**parts, overlap=overlap)


def scenario_tables(scenario: ScenarioSpec) -> dict[str, Any]:
    """Return the parts of a scenario as the tables of an experiment.

    Attackers only where there are any: runs from before they were there can be resumed.
    """
    found = {key: _table(kinds, getattr(scenario, key)) for key, (kinds, _) in KINDS.items()}
    if isinstance(scenario.attackers, attackers.NoAttackers):
        del found["attackers"]
    return found


def _table(kinds: Mapping[str, type[Any]], part: Any) -> dict[str, Any]:
    """Return a part as a table; one of the user's own as it prints itself."""
    kind = next((name for name, cls in kinds.items() if type(part) is cls), None)
    if kind is None:
        shown = repr(part)
        # What prints its address would never be the same again.
        return {"kind": "given", "is": type(part).__qualname__ if " at 0x" in shown else shown}
    return {"kind": kind, **dataclasses.asdict(part)}
