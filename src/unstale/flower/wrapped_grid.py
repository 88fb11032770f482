"""A Grid that hands everything to another one: what `LateGrid` does not change."""

from collections.abc import Iterable
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid


class WrappedGrid(Grid):
    """All of a Grid but `send_and_receive`, as the wrapped one does it."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def set_run(self, run: Any) -> None:
        """Set the run of the wrapped Grid."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """Information on the run."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message (deprecated in Flower)."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> list[int]:
        """Return all connected nodes, busy or not."""
        return list(self._grid.get_node_ids())

    def get_nodes(self) -> Iterable[Any]:
        """Return what Flower knows of all connected nodes."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages of which no account is kept: neither training nor evaluation."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull replies to messages of which no account is kept."""
        return self._grid.pull_messages(message_ids)
