"""What sinks have got of a run so far, kept in the run folder so that a resumed run goes on there.

`sinks/<label>/seed-<n>.json` holds the `id` of the run, and by sink the last round that was
`written` and whether it was `finished`.
"""

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Delivered:
    """How much of a run one sink has got."""

    written: int = 0
    """The last round."""
    finished: bool = False
    """Whether it has got the summary."""


@dataclass(slots=True)
class SinkRecord:
    """How much of one method and seed each sink has got."""

    path: Path
    """The file."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    """The name of the run in all sinks."""
    sinks: dict[str, Delivered] = field(default_factory=dict)
    """By sink."""

    @classmethod
    def read(cls, path: Path) -> "SinkRecord":
        """Return the record of a file; a new one where there is none, or none that is sound."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            sinks = {
                str(name): Delivered(int(one["written"]), bool(one["finished"]))
                for name, one in _mapping(found["sinks"]).items()
            }
            return cls(path, str(found["id"]), sinks)
        except (OSError, ValueError, TypeError, KeyError):
            return cls(path)

    def of(self, sink: str) -> Delivered:
        """Return how much a sink has got."""
        return self.sinks.setdefault(sink, Delivered())

    def write(self) -> None:
        """Write the file, as a whole or not at all.

        It is not flushed to the disk, unlike what runs rely on: a crash of the process loses
        nothing, and after one of the machine a sink may get some rounds twice.
        """
        sinks = {
            name: {"written": one.written, "finished": one.finished}
            for name, one in self.sinks.items()
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"id": self.id, "sinks": sinks}), encoding="utf-8")
        os.replace(temporary, self.path)


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value
