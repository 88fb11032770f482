"""What survives a crash: the journal, the events and the checkpoints of one run, in step.

An update is journaled, then logged as accepted. A round ends with a checkpoint, which
also holds the line that announces it; then the journal forgets what the checkpoint before
held, and the line is logged. So at whatever instruction a process dies, what is on the disk
says which updates are in the checkpoint and which are not, and the missing line is known.

```
checkpoints/     the server and this book's own mark, the last two
journal/         accepted updates that not both checkpoints hold
events.jsonl     what was decided, in one gapless sequence
```
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unstale.errors import RunError
from unstale.flower.events import Event, EventLog
from unstale.flower.journal import Entry, Journal, Key
from unstale.privacy.sealing import Seal
from unstale.server import checkpoint
from unstale.server.checkpoint import Checkpoints, ReadParams

logger = logging.getLogger(__name__)

_MARK = "flower"

# The tree and the versions that `Server.to_tree` returns.
Saved = tuple[dict[str, Any], dict[int, ReadParams]]


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """What a folder says about the run that ended in it."""

    server: Saved
    """The server of the last sound checkpoint."""
    entries: Sequence[Entry] = ()
    """Accepted updates that it has not seen, oldest first."""
    out: Mapping[str, int] = field(default_factory=dict)
    """Who worked on which version when it was written."""
    slow: Sequence[int] = ()
    """For whom rounds did not wait."""


class Ledger:
    """The durable state of one run.

    Args:
        folder: Where it lies; None to write nothing down.
        seal: Encrypts checkpoints and journal; None to encrypt nothing.
    """

    def __init__(self, folder: Path | None, seal: Seal | None = None) -> None:
        self.folder = folder
        place = folder or Path()
        self._checkpoints = Checkpoints(place / "checkpoints", seal)
        self._journal = Journal(place / "journal", seal)
        self._events = EventLog(place / "events.jsonl")
        self._taken_before: list[Key] = []

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a run to go on with."""
        return self.folder is not None and checkpoint.exists(self._checkpoints.folder)

    @property
    def has_traces(self) -> bool:
        """Whether a run left anything here."""
        return self.folder is not None and (
            self.has_checkpoint or self._events.path.is_file() or not self._journal.is_empty()
        )

    def note(self, event: str, **fields: Any) -> None:
        """Log what happened."""
        if self.folder is not None:
            self._events.append(event, **fields)

    def accept(self, entry: Entry) -> None:
        """Write an update down, then log it as accepted."""
        if self.folder is not None:
            self._journal.write(entry)
            # A power cut may take the line, but not the entry, from which it is made again.
            self._events.append("accepted", synced=False, **_accepted(entry))

    def commit(
        self,
        server: Saved,
        event: Event,
        taken: Sequence[Key] = (),
        out: Mapping[str, int] | None = None,
        slow: Sequence[int] = (),
    ) -> None:
        """End a round.

        Args:
            server: The server's state after it.
            event: The line that announces it.
            taken: The updates that the server has been given since the round before.
            out: Who works on which version.
            slow: For whom rounds do not wait.
        """
        if self.folder is None:
            return
        tree, versions = server
        mark = {
            "events": self._events.next_seq,
            "event": event,
            "taken": [[list(key) for key in keys] for keys in (taken, self._taken_before)],
            "out": dict(out or {}),
            "slow": [str(node) for node in slow],  # too large for what JSON calls a number
        }
        self._events.sync()  # the mark counts on them
        self._checkpoints.write({"server": tree, _MARK: mark}, versions)
        # Those of the round before are in both checkpoints now: if the newest one turns out
        # to be damaged, the other one and the journal still have everything.
        self._journal.remove(self._taken_before)
        self._taken_before = list(taken)
        self._events.append(**event)

    def restore(self) -> Restored:
        """Return the run that ended here, and complete what its process could not log.

        Raises:
            CheckpointError: If no checkpoint is sound.
            RunError: If the events are damaged.
        """
        tree, versions = self._checkpoints.read()
        mark = tree[_MARK]
        events = self._events.load()
        undone = self._complete(events, mark)
        held = [[(str(node), int(version)) for node, version in keys] for keys in mark["taken"]]
        self._taken_before, older = held
        self._journal.remove(older)
        entries, damaged = self._journal.read()
        entries = [entry for entry in entries if entry.key not in set(self._taken_before)]
        logged = {(e["node"], e["base_version"]) for e in events if e["event"] == "accepted"}
        for entry in entries:
            if entry.key not in logged:
                self._events.append("accepted", **_accepted(entry))
        self._events.append(
            "resumed",
            version=tree["server"]["version"],
            waiting=[list(entry.key) for entry in entries],
            released=sorted(map(list, mark["out"].items() - {entry.key for entry in entries})),
            undone=undone,
            damaged=damaged,
        )
        slow = [int(node) for node in mark["slow"]]
        return Restored((tree["server"], versions), entries, mark["out"], slow)

    def _complete(self, events: Sequence[Event], mark: Mapping[str, Any]) -> list[int]:
        """Log the line of the checkpoint if it is missing; return versions beyond it."""
        seq, event = mark["events"], mark["event"]
        if len(events) == seq:
            self._events.append(**event)
            return []
        if len(events) < seq or {**events[seq], **event} != events[seq]:
            raise RunError(
                f"{self._events.path} should hold the {seq + 1} events up to the checkpoint of "
                f"version {event['version']}. Found {len(events)} lines, or others. Restore the "
                "file, or start anew in another folder."
            )
        undone = [e["version"] for e in events[seq + 1 :] if e["event"] == "version"]
        if undone:
            logger.warning("Versions %s are lost with a damaged checkpoint.", undone)
        return undone


def _accepted(entry: Entry) -> dict[str, Any]:
    node, version = entry.key
    return {
        "node": node,
        "base_version": version,
        "num_examples": entry.update.num_examples,
        "sent_in_round": entry.sent,
        "due_in_round": entry.due,
        "seconds": round(entry.seconds, 3),
    }
