"""What a section is given and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from unstale.report.palette import Style
from unstale.report.records import Run
from unstale.report.summarise import Summary


@dataclass(frozen=True, slots=True)
class Context:
    """All that a section of the page may see."""

    run: Run
    """The run folder, read."""
    summary: Summary
    """Its table of numbers."""
    styles: Mapping[str, Style]
    """Colour and dash by method label."""
    plots: Mapping[str, bytes] = field(default_factory=dict)
    """PNGs by name, shown in a chart's place where scripts are off."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page, with a heading of its own."""

    key: str
    """Its anchor."""
    title: str
    """Its heading, as plain text."""
    body: str
    """Its HTML; all foreign text in it is escaped."""


# Returns None where the run has nothing for the section.
SectionBuilder = Callable[[Context], Section | None]
