"""The model of a table, how numbers are written in it, and the table of classes."""

import math
from dataclasses import dataclass

from unstale.report.figures.classes import ClassAccuracy
from unstale.report.records import Run


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column."""

    title: str
    """Its title."""
    note: str = ""
    """A second, smaller line."""
    kind: str = "num"
    """Its CSS classes."""
    tip: str = ""
    """What it means, shown when the head is pointed at."""
    marked: bool = False
    """Whether it has the mark of an affected class."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a text and how it is set off."""

    text: str
    """What it says; foreign text is escaped by the template."""
    kind: str = "num"
    """Its CSS classes."""
    quiet: bool = False
    """Whether it stands back, such as a zero."""
    best: bool = False
    """Whether it is the best of its column."""
    spread: str = ""
    """The standard deviation over seeds."""
    note: str = ""
    """A second, smaller line below the text."""
    bar: str = ""
    """The CSS variables of a bar below the text: its colour and its length."""
    style: str = ""
    """The CSS variables of the cell itself."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, headed by a method's label or by another name."""

    head: str
    """That label or name; foreign text."""
    cells: tuple[Cell, ...]
    """As many as there are columns."""
    is_method: bool = True
    """Whether `head` is a method's label, which is shown with a sample of its line."""
    note: str = ""
    """A second, smaller line below the head."""
    oracle: bool = False
    """Whether it is the case without delay, which does not compete."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with row heads."""

    head: str
    """The title of the column of row heads."""
    columns: tuple[Column, ...]
    """The other columns."""
    rows: tuple[Row, ...]
    """Its rows."""
    kind: str = ""
    """Its CSS classes."""

    @property
    def marks_best(self) -> bool:
        """Whether any cell is marked as the best of its column."""
        return any(cell.best for row in self.rows for cell in row.cells)


def decimal(value: float | None, digits: int = 2) -> str:
    """Return a number for people, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{digits}f}"


def whole(value: float | None) -> str:
    """Return a count for people: digits only where a mean over seeds has them."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.1f}"


def counted(value: float) -> Cell:
    """Return the cell of a count; a zero stands back."""
    return Cell(whole(value)) if value else Cell("0", quiet=True)


def class_table(run: Run, accuracy: ClassAccuracy) -> Table:
    """Return accuracy of methods by classes, coloured, affected classes marked."""
    affected = accuracy.affected
    # Affected classes first: they are what the page is about, and all a phone has room for.
    order = sorted(range(len(accuracy.names)), key=lambda c: (c not in affected, c))
    kinds = {c: "num affected" if c in affected else "num" for c in order}
    oracles = {method.label for method in run.methods if method.is_oracle}
    columns = (Column(accuracy.names[c], kind=kinds[c], marked=c in affected) for c in order)
    rows = (
        Row(label, tuple(_shaded(row[c], kinds[c]) for c in order), oracle=label in oracles)
        for label, row in accuracy.rows.items()
    )
    return Table("Method", tuple(columns), tuple(rows), kind="heat")


def _shaded(value: float | None, kind: str) -> Cell:
    style = "" if value is None else f"--v:{min(max(value, 0), 1):.3f}"
    return Cell(decimal(value), kind, style=style)
