"""The list of tables and figures, and an item's tables, in the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from unstale.reproduce import STATES, item_state, state_of

if TYPE_CHECKING:
    from unstale.reproduce import Catalogue, Item, Table


def listed(catalogue: "Catalogue") -> list[dict[str, Any]]:
    """Return every table and figure with its item and state, for programs."""
    found = []
    for entry in catalogue.entries:
        item = catalogue.maker(entry)
        state, why = state_of(entry, item)
        found.append(
            {
                "name": entry.name,
                "label": entry.label,
                "about": entry.about,
                "place": entry.place,
                "item": None if item is None else item.name,
                "state": state,
                "why": why,
            }
        )
    return found


def besides(catalogue: "Catalogue") -> list[str]:
    """Return the items that make nothing of the paper, with their state."""
    items = (item for item in catalogue.items if not item.makes)
    return [f"{item.name} ({item.title}; {item_state(item)[0]})" for item in items]


def print_list(
    rows: Sequence[dict[str, Any]], others: Sequence[str] = (), console: Console | None = None
) -> None:
    """Print the list, and what the states in it mean."""
    console = console or Console()
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("paper", "shows", "item", "state"):
        table.add_column(title, no_wrap=title in ("paper", "item"))
    for row in rows:
        state = f"{row['state']}: {row['why']}" if row["why"] else row["state"]
        table.add_row(row["name"], row["about"], row["item"] or "–", state)
    console.print(table)
    for state, meaning in STATES.items():
        number = sum(row["state"] == state for row in rows)
        if number:
            console.print(f"{number:3} {state}: {meaning}", highlight=False, soft_wrap=True)
    if others:
        _say(console, f"Not in the paper: {', '.join(others)}.")
    console.print("`unstale reproduce ITEM` runs one; with --smoke in seconds.", highlight=False)


def print_tables(
    catalogue: "Catalogue",
    item: "Item",
    tables: Sequence["Table"],
    *,
    smoke: bool,
    console: Console | None = None,
) -> None:
    """Print an item's tables, each number of ours beside the paper's."""
    console = console or Console()
    for one in tables:
        name = catalogue.entry(one.paper).name
        _say(console, f"\n{name}: {one.title}")
        for part, (head, *rows) in enumerate(divided(one.cells(), console.width)):
            if part:
                console.print()
            table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
            for number, title in enumerate(head):
                table.add_column(title, justify="right" if number else "left")
            for row in rows:
                table.add_row(*row)
            console.print(table)
    if not tables:
        _say(console, f"{item.name}: its tables are in experiments/{item.name}/README.md")
    if smoke:
        _say(console, f"{item.name}: smoke run on generated data, which is no result")


def divided(cells: Sequence[Sequence[str]], width: int) -> list[list[list[str]]]:
    """Return a table in parts that are narrow enough, so that no number is cut.

    Each part begins with the first column. A column stays beside the one before it if that is
    ours and it the paper's. A column that is too wide alone has a part of its own.

    Args:
        cells: The head and the rows.
        width: Characters in a line.

    Example:
        >>> wide = [["", "τ = 1", "paper", "τ = 5", "paper"], ["convert", "0.2", "0.3", "0.4", "–"]]
        >>> [part[1] for part in divided(wide, width=28)]
        [['convert', '0.2', '0.3'], ['convert', '0.4', '–']]
    """
    head = cells[0]
    # Three characters between columns.
    wide = [3 + max(len(row[i]) for row in cells) for i in range(len(head))]
    groups: list[list[int]] = []
    for i in range(1, len(head)):
        if head[i] == "paper" and groups:
            groups[-1].append(i)
        else:
            groups.append([i])
    parts: list[list[int]] = []
    for group in groups:
        needed = wide[0] + sum(wide[i] for i in [*(parts[-1] if parts else ()), *group])
        if parts and needed <= width:
            parts[-1] += group
        else:
            parts.append([*group])
    return [[[row[0], *(row[i] for i in part)] for row in cells] for part in parts]


def _say(console: Console, text: str) -> None:
    # Beside a table and not in it: a title is otherwise cut to the table's width.
    console.print(text, highlight=False, markup=False, soft_wrap=True)
