"""What a run on real clients tells of its nodes, as frozen records, and what follows."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from unstale.report.checked import counts, items, mapping


@dataclass(frozen=True, slots=True)
class Nodes:
    """Who did what in one round; all names are foreign text."""

    answered: tuple[str, ...] = ()
    """Whose replies came, late ones included."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Whose reply belonged to an earlier round, and by how many rounds."""
    working: Mapping[str, int] = field(default_factory=dict)
    """Who had not answered yet, and since how many rounds."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """How many replies of whom were refused."""


def parse_nodes(value: object) -> Nodes | None:
    """Return a round's nodes; None for a round of a simulation, which has none."""
    if value is None:
        return None
    fields = mapping(value, "nodes")
    refused = [mapping(one, "A refusal") for one in items(fields.get("refused"), "refused")]
    return Nodes(
        tuple(str(node) for node in items(fields.get("answered"), "answered")),
        counts(fields.get("late"), "late"),
        counts(fields.get("working"), "working"),
        Counter(str(one.get("node", "?")) for one in refused),
    )


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
