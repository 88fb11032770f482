"""The paper's tables and figures, from `experiments/paper.toml`."""

from dataclasses import dataclass
from pathlib import Path

from unstale.errors import ConfigError, UnknownNameError
from unstale.reproduce.toml import check_keys, get, read_toml, tables_at

KINDS = ("table", "figure")
LEFT = ("not built", "a drawing")
"""Why no item makes a table or figure: not yet built, or nothing to compute."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One table or figure of the paper.

    Example:
        >>> Entry("table", 9, "main", "accuracy by data set", "Section 4.2").name
        'Table 9'
    """

    kind: str
    """`table` or `figure`."""
    number: int
    """Its number in the paper."""
    label: str
    """Its label in the paper's source."""
    about: str
    """What it shows, in a few words."""
    place: str
    """Where it is in the paper."""
    left: str | None = None
    """Why no item makes it, one of `LEFT`; None if one does."""
    why: str = ""
    """The same in words: what it waits for."""

    @property
    def name(self) -> str:
        """How the paper refers to it."""
        return f"{self.kind.title()} {self.number}"


def read_paper(path: Path) -> tuple[Entry, ...]:
    """Return all tables and figures, in the order of the file.

    Raises:
        ConfigError: If the file is wrong, or a label or number appears twice.
    """
    table = read_toml(path)
    check_keys(table, ["entries"], path.name)
    found: list[Entry] = []
    for number, one in enumerate(tables_at(table, "entries", path.name), start=1):
        where = f"entry {number} in {path.name}"
        check_keys(one, Entry.__dataclass_fields__, where)
        kind = get(one, "kind", str, where)
        if kind not in KINDS:
            raise UnknownNameError(f"`kind` of {where}", kind, KINDS)
        if "left" in one and one["left"] not in LEFT:
            raise UnknownNameError(f"`left` of {where}", str(one["left"]), LEFT)
        entry = Entry(
            kind,
            get(one, "number", int, where),
            get(one, "label", str, where),
            get(one, "about", str, where),
            get(one, "place", str, where),
            one.get("left"),
            get(one, "why", str, where, ""),
        )
        if any(entry.label == other.label or entry.name == other.name for other in found):
            raise ConfigError(
                f"Labels and numbers in {path.name} should be unique. Found {entry.name} "
                f"('{entry.label}') twice."
            )
        found.append(entry)
    return tuple(found)
