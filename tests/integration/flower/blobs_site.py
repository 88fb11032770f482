"""A site for the app of blobs, whose nodes are light, so that processes can die often."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deployment import HANGS, PROBE, Program, Site, Value, wait_until
from records import Records

from marked_processes import marked

BLOBS = Path(__file__).parent / "blobs_app"


class BlobsSite(Site):
    """A site whose nodes outlive a SuperLink, and where the app of blobs finds its parts."""

    def __init__(self, folder: Path, *, certificates: Path | None, isolation: str) -> None:
        super().__init__(folder, certificates=certificates, isolation=isolation)
        # With this app come the records of the probing app.
        self.environment["PYTHONPATH"] += os.pathsep + str(PROBE)

    def start(self, *command: object) -> Program:
        """Start a command; nodes try again without end, which is Flower's default."""
        words = list(command)
        if "--max-retries" in words:
            place = words.index("--max-retries")
            del words[place : place + 2]
        return super().start(*words)


@contextmanager
def open_blobs_site(
    folder: Path, *, certificates: Path | None = None, isolation: str = "subprocess"
) -> Iterator[BlobsSite]:
    """Start a SuperLink in a folder; at the end everything that runs there is killed."""
    site = BlobsSite(folder, certificates=certificates, isolation=isolation)
    try:
        site.start_superlink()
        if isolation == "process":
            site.start_superexec()
        yield site
    finally:
        site.close()


def run_blobs(site: Site, records: Records, **config: Value) -> str:
    """Start a run that begins in a folder, or goes on with what it holds; return its id."""
    # Two of three nodes close a round, which a slow one does not hold up.
    settled: dict[str, Value] = {"close_fraction": 0.6, "close_deadline": HANGS, **config}
    return site.run(BLOBS, folder=str(records.folder), trace=str(records.trace), **settled)


def version(records: Records) -> int:
    """Return the last finished round; the server may be writing at this moment."""
    path = records.folder / "events.jsonl"
    return path.read_bytes().count(b'"event": "version"') if path.exists() else 0


def seen(records: Records, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind, also before a run has any."""
    return records.events(kind) if (records.folder / "events.jsonl").exists() else []


def wait_for_version(records: Records, wanted: int) -> None:
    """Return as soon as a round is finished."""
    wait_until(lambda: version(records) >= wanted, f"version {wanted}", every=0.02)


def wait_for_server_app(site: Site) -> None:
    """Return as soon as a ServerApp's process is there."""
    wait_until(lambda: bool(marked(site.mark, "flwr-serverapp")), "a ServerApp", every=0.02)


def give_order(records: Records, partition: int, order: str) -> None:
    """Tell a node to `raise` or `die` at its next message."""
    records.trace.mkdir(parents=True, exist_ok=True)
    draft = records.trace / "order.draft"
    draft.write_text(order)
    draft.replace(records.trace / f"order-{partition}")


def assert_sequence(records: Records) -> None:
    """Check that nothing accepted was lost or counted twice, whatever died in between."""
    events = records.events()  # checks their numbers
    accepted = [(e["node"], e["base_version"]) for e in events if e["event"] == "accepted"]
    assert len(accepted) == len(set(accepted)), "accepted twice"
    versions = [e for e in events if e["event"] == "version"]
    assert [e["version"] for e in versions] == list(range(1, len(versions) + 1))
    used = [(node, base) for e in versions for node, base in e["updates"]]
    assert len(used) == len(set(used)), "counted twice"
    assert set(used) <= set(accepted)
    for node, base in set(accepted) - set(used):
        # It came after the last round: it waits for a next one.
        assert (records.folder / "journal" / f"{base:010d}-{node}.safetensors").exists(), "lost"
    assert not any(e["event"] == "lost" for e in events)
    # What nodes say that they were given; a version may have gone with a server that died.
    versions_of = records.version_of()
    done = {(w["node"], versions_of.get(w["received"])) for w in records.work() if "sent" in w}
    assert set(accepted) <= done, "nobody did that work"
