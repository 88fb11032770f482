"""The sections of the page, one file each, in the order a reader meets them.

To add one: write `build(context) -> Section | None` in a file of its own and put it
into `SECTIONS`.
"""

from unstale.report.context import SectionBuilder
from unstale.report.sections import (
    classes,
    clients,
    conversions,
    effect,
    fit,
    handling,
    nodes,
    oracle,
    setup,
    staleness,
    surrogates,
    switching,
    table,
)

SECTIONS: tuple[SectionBuilder, ...] = (
    effect.build,
    table.build,
    clients.build,
    nodes.build,
    staleness.build,
    classes.build,
    handling.build,
    conversions.build,
    fit.build,
    oracle.build,
    switching.build,
    surrogates.build,
    setup.build,
)

__all__ = ["SECTIONS"]
