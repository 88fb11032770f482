"""Rows of the table in docs/crashes.md that take no minute; `crash_rows.py` shows all of them."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs" / "crashes.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "clientapp_raises",
        "superlink_killed_in_process_isolation",
    ],
)
def test_row(name, tmp_path):
    from crash_rows import ROWS

    ROWS[name](tmp_path)


def test_the_table_names_what_shows_each_row():
    from crash_rows import ROWS

    tests = Path(__file__).parents[2]
    written = "".join(path.read_text() for path in tests.rglob("test_*.py"))
    table = [line for line in DOCS.read_text().splitlines() if line.startswith("| ")][2:]
    shown = set()
    for line in table:
        names = re.findall(r"`(\w+)`", line.rsplit(" | ", 1)[-1])
        assert names, f"nothing shows it: {line}"
        shown.update(names)
    for name in shown - {*ROWS}:
        assert f"def {name}(" in written or [*tests.rglob(f"{name}.py")], f"there is no {name}"
    assert shown >= {*ROWS}
