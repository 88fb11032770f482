"""The nodes of a run on real clients, each over all rounds."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unstale.run_folder.schema import Nodes


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """One node over a whole run."""

    name: str
    """Foreign text."""
    answers: int
    """Its replies."""
    lateness: tuple[int, ...]
    """By how many rounds its late ones were late."""
    refused: int
    """How many were refused."""
    working: int | None
    """Since how many rounds it worked at the end; None if it had answered."""

    @property
    def typical(self) -> float:
        """The median lateness over all its replies, on-time ones included."""
        on_time = max(0, self.answers - len(self.lateness))
        every = [*self.lateness, *[0] * on_time]
        return statistics.median(every) if every else 0.0

    @property
    def longest(self) -> int:
        """The most rounds that it ever took, or takes already."""
        return max([*self.lateness, self.working or 0])


def histories(rounds: Iterable[Nodes]) -> list[NodeHistory]:
    """Return every node that was ever heard of, the latest first."""
    answers: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    lateness: dict[str, list[int]] = {}
    working: Mapping[str, int] = {}
    names: set[str] = set()
    for nodes in rounds:
        answers.update(nodes.answered)
        refused.update(nodes.refused)
        for name, late in nodes.late.items():
            lateness.setdefault(name, []).append(late)
        working = nodes.working
        names.update(nodes.answered, nodes.late, nodes.working, nodes.refused)
    found = [
        NodeHistory(
            name,
            answers[name],
            tuple(lateness.get(name, ())),
            refused[name],
            working.get(name),
        )
        for name in names
    ]
    return sorted(found, key=lambda node: (-node.typical, -node.longest, node.name))


def count_late(found: Iterable[NodeHistory]) -> tuple[int, str]:
    """Return how many nodes were ever late, and by how much, such as "2 to 7 rounds".

    Example:
        >>> count_late([NodeHistory("a", 3, (2, 7), 0, None), NodeHistory("b", 9, (), 0, 1)])
        (1, '2 to 7 rounds')
    """
    late = [node.lateness for node in found if node.lateness]
    if not late:
        return 0, ""
    low, high = min(map(min, late)), max(map(max, late))
    unit = "round" if high == 1 else "rounds"
    return len(late), f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
