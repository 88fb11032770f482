"""The event log: what the server decided, as one gapless sequence of JSON lines.

```
{"seq": 0, "event": "started", "version": 0, ...}
{"seq": 1, "event": "accepted", "node": "817…", "base_version": 0, "num_examples": 40, ...}
{"seq": 2, "event": "refused", "node": "204…", "code": "shape", "reason": "…", ...}
{"seq": 3, "event": "version", "version": 1, "updates": [["817…", 0]], ...}
```

Lines are only ever added. A process that dies while it writes leaves at most a part
of a last line, which the next one cuts off.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from unstale.errors import RunError

Event = dict[str, Any]
# Windows would write "\r\n" for the end of a line.
_BINARY = getattr(os, "O_BINARY", 0)


class EventLog:
    """The events of one run.

    Raises:
        RunError: If a line is damaged or missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.next_seq = 0

    def load(self) -> list[Event]:
        """Return what is there, and cut off a last line that is not whole."""
        events: list[Event] = []
        self.next_seq = 0
        if not self.path.is_file():
            return events
        content = self.path.read_bytes()
        *lines, torn = content.split(b"\n")
        for number, line in enumerate(lines):
            event = _parsed(line)
            if event is None or event.get("seq") != number:
                raise RunError(
                    f"Line {number + 1} of {self.path} should be event {number}. Found "
                    f"{line[:60]!r}. Restore the file, or start anew in another folder."
                )
            events.append(event)
        if torn:
            os.truncate(self.path, len(content) - len(torn))
        self.next_seq = len(events)
        return events

    def append(self, event: str, *, synced: bool = True, **fields: Any) -> None:
        """Add an event.

        Args:
            event: What happened.
            synced: Whether it is to be on the disk when this returns. Otherwise a power cut
                (but no crash of the process) may lose it, until the next one that is synced.
            fields: More about it.
        """
        record = {"seq": self.next_seq, "event": event, "time": round(time.time(), 3), **fields}
        # ASCII: a reason may quote what no other encoding can hold.
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
        try:
            # One call for the line: what a crash leaves is its beginning or all of it.
            written = os.write(handle, line)
            while written < len(line):
                written += os.write(handle, line[written:])
            if synced:
                os.fsync(handle)
        finally:
            os.close(handle)
        self.next_seq += 1

    def sync(self) -> None:
        """Bring all events to the disk."""
        if self.next_seq:
            handle = os.open(self.path, os.O_WRONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _parsed(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
