"""Who is slow and what they hold: clients by classes, with latency."""

from typing import Any

from unstale.report.context import Context, Section
from unstale.report.markup import chart, short
from unstale.report.records import Client, Scenario


def slowest_first(scenario: Scenario) -> list[Client]:
    """Order clients by latency, and those of one latency by the class they hold most of."""
    return sorted(
        scenario.clients,
        key=lambda c: (-c.latency, c.histogram.index(max(c.histogram)) if c.histogram else 0),
    )


def _scenario_data(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": f"seed {scenario.seed}",
        "classes": scenario.classes,
        "affected": scenario.affected,
        "clients": [
            {
                "id": client.id,
                "latency": short(client.latency, 2),
                "slow": client.slow,
                # Pairs of class and examples: most clients hold few classes.
                "holds": [[c, n] for c, n in enumerate(client.histogram) if n],
            }
            for client in slowest_first(scenario)
        ],
    }


def build(context: Context) -> Section | None:
    """Build the section; None where no scenario was written yet."""
    scenarios = [s for s in context.run.scenarios.values() if s.clients and s.classes]
    if not scenarios:
        return None
    spec = {
        "kind": "clients",
        "title": "Who is slow, and what they hold",
        "desc": "Clients from left to right, the slowest first. Bars above: how many rounds "
        "late their updates are. Cells below: how many examples of each class they hold.",
        "views": [_scenario_data(scenario) for scenario in scenarios],
    }
    caption = "Clients from left to right, the slowest first; the deeper a cell, the more examples."
    return Section(
        "clients", "Who is slow, and what they hold", chart(context, "clients", spec, caption)
    )
