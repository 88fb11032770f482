"""What goes out: messages to nodes, and who of them is here, late or still at work."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from unstale.errors import ConfigError
from unstale.flower.late_grid import LateGrid
from unstale.flower.work_messages import VERSION_KEY


@dataclass(frozen=True, slots=True)
class RecordNames:
    """How the records of a message are called."""

    arrays: str = "arrays"
    config: str = "config"

    def __post_init__(self) -> None:
        if self.arrays == self.config:
            raise ConfigError(
                "The records of arrays and of settings should have names of their own. Found "
                f"{self.arrays!r} for both."
            )


@dataclass(frozen=True, slots=True)
class Attendance:
    """Who took part in a round."""

    answered: list[str] = field(default_factory=list)
    """The nodes whose replies came out, late ones included."""
    late: dict[str, int] = field(default_factory=dict)
    """By how many rounds the late ones of them are late."""
    working: dict[str, int] = field(default_factory=dict)
    """The nodes that have not answered, and since how many rounds."""
    slow: list[int] = field(default_factory=list)
    """The nodes that the next round does not wait for."""


def messages_to(
    nodes: Sequence[int],
    kind: str,
    *,
    names: RecordNames,
    arrays: ArrayRecord,
    config: ConfigRecord,
    round: int,
    version: int | None = None,
) -> list[Message]:
    """Return the same message to each node; with a version if there is one to tell."""
    settings = ConfigRecord({**config, "server-round": round})
    if version is not None:
        settings[VERSION_KEY] = version
    content = RecordDict({names.arrays: arrays, names.config: settings})
    return [
        Message(content=content, message_type=kind, dst_node_id=node, group_id=str(round))
        for node in nodes
    ]


def attendance(grid: LateGrid, replies: Iterable[Message]) -> Attendance:
    """Return who answered in the round that has just closed."""
    arrivals = [a for a in map(grid.arrival_of, replies) if a and a.outcome == "answered"]
    return Attendance(
        answered=[str(a.ticket.node_id) for a in arrivals],
        late={str(a.ticket.node_id): a.rounds_late for a in arrivals if a.rounds_late > 0},
        working={str(node): grid.round - t.round for node, t in grid.working().items()},
        slow=grid.slow_nodes(),
    )
