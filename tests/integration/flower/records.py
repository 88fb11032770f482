"""What a run of the probing app left behind: the server's files, and what nodes really did."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass
class Records:
    """The run folder beside the truth that nodes and evaluation wrote down."""

    folder: Path
    trace: Path

    def events(self, kind: str = "") -> list[Record]:
        """Return the server's events of one kind, or all; they are one gapless sequence."""
        lines = [json.loads(line) for line in _lines(self.folder / "events.jsonl")]
        assert [line["seq"] for line in lines] == list(range(len(lines)))
        return [line for line in lines if not kind or line["event"] == kind]

    def rounds(self) -> list[Record]:
        """Return the lines of all rounds."""
        (path,) = (self.folder / "rounds").rglob("seed-*.jsonl")
        lines = [json.loads(line) for line in _lines(path)]
        assert [line["round"] for line in lines] == list(range(1, len(lines) + 1))
        return lines

    def version_of(self) -> dict[str, int]:
        """Return the version that each state of the weights was, by what was evaluated."""
        found = {}
        for path in self.trace.glob("version-*.json"):
            found[json.loads(path.read_text())["weights"]] = int(path.stem.split("-")[1])
        return found

    def work(self) -> list[Record]:
        """Return what nodes were given, in no order; `sent` is there once they have answered."""
        return [json.loads(path.read_text()) for path in self.trace.glob("work-*.json")]

    def worked_on(self) -> set[tuple[str, int]]:
        """Return (node, version) for every piece of work that a node has finished."""
        versions = self.version_of()
        return {(w["node"], versions[w["received"]]) for w in self.work() if "sent" in w}


def assert_matched_and_converted(
    records: Records, slow: str, *, late_by: int, at_least: int
) -> None:
    """Check that late updates counted once, for the version they belong to, and converted.

    Args:
        records: What the run left behind.
        slow: The id of the slow node.
        late_by: How many versions late it answers, or more.
        at_least: How many of its updates should have come.
    """
    accepted = [(event["node"], event["base_version"]) for event in records.events("accepted")]
    assert len(accepted) == len(set(accepted))
    # The server's tickets say what the weights say that nodes were really given.
    assert set(accepted) <= records.worked_on()

    # Every accepted update went into one version, and no other did.
    versions = records.events("version")
    assert [event["version"] for event in versions] == list(range(1, len(versions) + 1))
    used = [(node, base) for event in versions for node, base in event["updates"]]
    assert len(used) == len(set(used))
    assert set(used) <= set(accepted)
    assert len(set(accepted) - set(used)) <= 1  # one may have come after the last round
    staleness = [e["version"] - 1 - base for e in versions for n, base in e["updates"] if n == slow]
    assert len(staleness) >= at_least
    assert min(staleness) >= late_by

    # Late ones were converted, each in the round whose version took it, and moved the model.
    converted = {
        (note["client"], note["base_version"]): line["version"]
        for line in records.rounds()
        for note in line.get("converted", ())
    }
    for event in versions:
        for node, base in event["updates"]:
            if event["version"] - 1 > base:
                assert converted.pop((node, base)) == event["version"]
                assert event["changed"]
    assert not converted


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
