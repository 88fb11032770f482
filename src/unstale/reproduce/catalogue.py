"""The catalogue: every table and figure of the paper, and the items that make them.

It lies in `experiments/` of a checkout and not in the installed package: experiment files,
studies and results belong together, and they are not part of the library.
"""

from dataclasses import dataclass
from pathlib import Path

from unstale.errors import ConfigError, UnknownNameError
from unstale.reproduce.items import FILE, Item, read_item
from unstale.reproduce.paper import Entry, read_paper
from unstale.run_folder.provenance import source_root

PAPER = "paper.toml"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The paper's tables and figures with their items."""

    folder: Path
    """The folder `experiments`."""
    entries: tuple[Entry, ...]
    """Every table and figure of the paper."""
    items: tuple[Item, ...]
    """The items that are built, by name."""

    def find(self, name: str) -> Item:
        """Return the item of that name; the label or number of what it makes will do, too.

        Raises:
            ConfigError: If there is none; says what a table waits for that is not built.
        """
        by_name = {item.name: item for item in self.items}
        if name in by_name:
            return by_name[name]
        wanted = " ".join(name.lower().replace("_", " ").split())
        for entry in self.entries:
            if name == entry.label or wanted == entry.name.lower():
                if item := self.maker(entry):
                    return item
                raise ConfigError(
                    f"{entry.name} ({entry.about}) cannot be run: {entry.left}. {entry.why}"
                )
        raise UnknownNameError("The item", name, by_name)

    def maker(self, entry: Entry) -> Item | None:
        """Return the item that makes a table or figure; None if none does."""
        return next((item for item in self.items if entry.label in item.makes), None)

    def entry(self, label: str) -> Entry:
        """Return a table or figure by its label."""
        return next(entry for entry in self.entries if entry.label == label)


def find_experiments(folder: Path | None = None) -> Path:
    """Return the folder `experiments` of the checkout.

    Args:
        folder: The folder itself; by default that of the source tree this runs from, else
            `experiments` in the working folder.

    Raises:
        ConfigError: If there is none; says where to get it.
    """
    root = source_root()
    places = [folder] if folder is not None else [*([root / "experiments"] if root else [])]
    if folder is None:
        places.append(Path("experiments"))
    for place in places:
        if (place / PAPER).is_file():
            return place
    raise ConfigError(
        "`unstale reproduce` should find the experiments of the paper, which come with the "
        f"repository of Unstale and not with the package. There is no {PAPER} in "
        f"{' or '.join(map(str, places))}. Get the repository's sources and run it there, or name "
        "their folder `experiments` with --experiments DIR."
    )


def read_catalogue(folder: Path) -> Catalogue:
    """Return the catalogue of a folder `experiments`.

    Raises:
        ConfigError: If a description is wrong, if a table or figure has two makers or none and
            no reason for it, or if an item makes something that the paper does not have.
    """
    entries = read_paper(folder / PAPER)
    items = tuple(read_item(path.parent) for path in sorted(folder.glob(f"*/{FILE}")))
    labels = {entry.label for entry in entries}
    for item in items:
        for label in (*item.makes, *(table.paper for table in item.tables)):
            if label not in labels:
                raise UnknownNameError(f"A label in {item.name}/{FILE}", label, labels)
    for entry in entries:
        makers = [item.name for item in items if entry.label in item.makes]
        if len(makers) != (entry.left is None):
            raise ConfigError(
                f"{entry.name} ('{entry.label}') should be made by one item, or say in {PAPER} why "
                f"it is `left`. Found {', '.join(makers) or 'no item'}"
                f"{'' if entry.left is None else f' and left = {entry.left!r}'}."
            )
    return Catalogue(folder, entries, items)
