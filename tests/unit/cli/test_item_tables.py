"""Tables of items in a terminal: wide ones are divided, and no number is cut."""

from io import StringIO

import pytest
from rich.console import Console

from unstale.cli.item_tables import divided, print_tables
from unstale.reproduce import Table
from unstale.reproduce.table import Figure

COLUMNS = tuple(f"τ = {tau}" for tau in (2, 5, 10, 30, 47))


class Paper:
    """A catalogue that knows one table."""

    def entry(self, label):
        return type("Entry", (), {"name": "Table 19"})


def shown(width):
    ours = {"convert": tuple(Figure(0.1 + tau / 100, 0.021, 3) for tau in range(5))}
    theirs = {"convert": (0.05, 0.18, 0.22, 0.22, 0.26)}
    table = Table("label", "errors", 3, COLUMNS, ours, theirs, ("not run",) * 5, (3,) * 5)
    console = Console(file=StringIO(), width=width)
    print_tables(Paper(), None, [table], smoke=False, console=console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_number_is_cut(width):
    text = shown(width)
    assert "…" not in text
    for number in ("0.100 ± 0.021", "0.140 ± 0.021", "0.05", "0.26"):
        assert number in text
    for column in COLUMNS:
        assert text.count(column) == 1
    assert max(map(len, text.splitlines())) <= width


def test_one_part_where_there_is_room():
    assert shown(200).count("convert") == 1
    assert shown(80).count("convert") == 3
    assert shown(40).count("convert") == 5


def test_a_column_that_is_too_wide_alone_is_shown_all_the_same():
    cells = [["", "head"], ["row", "x" * 50]]
    assert divided(cells, width=10) == [cells]
