"""The sections of the page, one file each, in the order a reader meets them.

To add one: write `build(context) -> Section | None` in a file of its own and put it
into `SECTIONS`.
"""

from unstale.report.context import SectionBuilder
from unstale.report.sections import (
    classes,
    clients,
    effect,
    handling,
    oracle,
    setup,
    staleness,
    table,
)

SECTIONS: tuple[SectionBuilder, ...] = (
    effect.build,
    table.build,
    clients.build,
    staleness.build,
    classes.build,
    handling.build,
    oracle.build,
    setup.build,
)

__all__ = ["SECTIONS"]
