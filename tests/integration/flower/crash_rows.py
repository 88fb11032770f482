"""The table of docs/crashes.md, row by row, with real processes: what dies, and what is lost.

    python tests/integration/flower/crash_rows.py                 all rows, one after the other
    python tests/integration/flower/crash_rows.py clientapp_dies  one of them

Each row starts a SuperLink and three SuperNodes on loopback, kills something with `kill -9`,
checks what the table says, and prints what was seen. Flower notices the death of a node or of a
ClientApp's process after a minute, so the whole takes some minutes; `test_crash_rows.py` runs the
rows that need no such wait.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as pytest's `pythonpath` does for tests
    HERE = Path(__file__).parent
    sys.path += map(str, [HERE.parents[1], HERE / "blobs_app", HERE / "probing_app"])
    sys.path.append(str(HERE.parents[2] / "examples" / "flower"))

from blobs_site import (
    assert_sequence,
    give_order,
    open_blobs_site,
    run_blobs,
    seen,
    version,
    wait_for_version,
)
from deployment import HANGS, Program, Site, Value, three_nodes, wait_until
from records import Records

from marked_processes import marked, watch_this_process

SLOW = 2  # the last of three partitions
AT_LENGTH = 200  # rounds of a run that is watched for a while and then stopped


def serverapp_killed(folder: Path) -> str:
    """A new run goes on at once; the dead one is told as failed much later."""
    records = records_in(folder)
    with open_blobs_site(folder) as site:
        nodes = site.start_nodes(*three_nodes(slow_rounds=2))
        dead = run_blobs(site, records, num_rounds=AT_LENGTH)
        wait_for_work(records, SLOW)
        wait_for_version(records, 2)
        site.kill_server_app()
        killed = time.monotonic()
        done = version(records)
        run_blobs(site, records, num_rounds=AT_LENGTH)
        wait_for_version(records, done + 1)
        again = time.monotonic() - killed
        wait_until(lambda: site.status(dead) == "finished:failed", "the dead run's end", 1)
        failed = time.monotonic() - killed
        stop(site)
        assert [node.process.poll() for node in nodes] == [None] * 3
    (resumed,) = records.events("resumed")
    assert_sequence(records)
    assert resumed["version"] == done
    return (
        f"Went on after version {done} in a new run, whose first version was made {again:.0f} s "
        f"after the kill. Handed out again: {len(resumed['released'])}; accepted and kept: "
        f"{len(resumed['waiting'])}. Flower called the dead run failed after {failed:.0f} s."
    )


def superlink_killed(folder: Path) -> str:
    """By default the run dies with it; a new one goes on, with the same nodes."""
    records = records_in(folder)
    with open_blobs_site(folder) as site:
        nodes = site.start_nodes(*three_nodes(slow_rounds=2))
        dead = run_blobs(site, records, num_rounds=AT_LENGTH)
        wait_for_version(records, 1)
        wait_for_work(records, SLOW)
        site.kill_superlink()
        killed = time.monotonic()
        wait_until(lambda: not marked(site.mark, "flwr-serverapp"), "the end of its ServerApp")
        ended = time.monotonic() - killed
        done = version(records)
        site.start_superlink()
        run_blobs(site, records, num_rounds=AT_LENGTH)
        wait_for_version(records, done + 4)
        wait_until(lambda: site.status(dead) == "finished:failed", "the dead run's end", 1)
        stop(site)
        assert [node.process.poll() for node in nodes] == [None] * 3
    (resumed,) = records.events("resumed")
    assert_sequence(records)
    assert {node for e in versions_after(records, done) for node, _ in e["updates"]} >= ids(
        nodes[:SLOW]
    )
    return (
        f"Its ServerApp ended {ended:.0f} s after it; the run failed. The SuperNodes lived on and "
        f"came back under the same ids. A new run went on after version {done}; handed out "
        f"again: {len(resumed['released'])}."
    )


def superlink_killed_in_process_isolation(folder: Path) -> str:
    """The run itself goes on, and late work that was under way counts."""
    records = records_in(folder)
    with open_blobs_site(folder, isolation="process") as site:
        nodes = site.start_nodes(*three_nodes(slow_rounds=3))
        run = run_blobs(site, records, num_rounds=5)
        wait_for_version(records, 1)
        under_way = wait_for_work(records, SLOW)
        site.kill_superlink()
        killed = time.monotonic()
        site.start_superlink()
        outage = time.monotonic() - killed
        status = site.wait(run)
        assert status == "finished:completed", site.log_of(run)
        assert [node.process.poll() for node in nodes] == [None] * 3
    assert_sequence(records)
    events = records.events()
    assert not [e for e in events if e["event"] in ("resumed", "failed", "lost")]
    slow = str(nodes[SLOW].node_id)
    used = {(n, base): e["version"] for e in events if e["event"] == "version"
            for n, base in e["updates"]}  # fmt: skip
    base = records.version_of()[under_way["received"]]
    late = used[slow, base] - 1 - base
    assert late >= 3
    return (
        f"After an outage of {outage:.0f} s the same run went on to its end. The late update "
        f"that was under way came {late} versions late and counted. Nothing was lost."
    )


def supernode_killed_without_key(folder: Path) -> str:
    """Its work is lost; it comes back at once, as somebody else."""
    records = records_in(folder)
    configs = three_nodes(slow_rounds=3)
    with open_blobs_site(folder) as site:
        nodes = site.start_nodes(*configs)
        run_blobs(site, records, num_rounds=AT_LENGTH)
        wait_for_version(records, 1)
        wait_for_work(records, SLOW)
        kill_node(site, nodes[SLOW])
        killed, at = time.monotonic(), version(records)
        again = site.start_node(configs[SLOW])
        again.wait_for("SuperNode ID: ")
        back = time.monotonic() - killed
        wait_until(lambda: accepted_of(records, again.node_id) > 0, "its first update", 0.5)
        wait_until(lambda: bool(seen(records, "failed")), "the end of its work", 0.5)
        gone = time.monotonic() - killed
        rounds = version(records) - at
        stop(site)
    assert_sequence(records)
    assert again.node_id != nodes[SLOW].node_id
    failed = only(records, "failed", nodes[SLOW].node_id)
    assert failed["code"] == "gone"
    return (
        f"The piece of work it had was lost and given up {gone:.0f} s after the kill (reported as "
        f"'{failed['code']}'); {rounds} rounds were made meanwhile. Started again, it was in "
        f"after {back:.0f} s under a new id, and its updates counted."
    )


def supernode_killed_with_key(folder: Path) -> str:
    """Its work is lost; it comes back under its id, once Flower has noticed its death."""
    from make_certificates import make_certificates

    records = records_in(folder)
    configs = three_nodes(slow_rounds=3)
    certificates = make_certificates(folder / "certificates", nodes=3)
    with open_blobs_site(folder, certificates=certificates) as site:
        nodes = site.start_nodes(*configs)
        run_blobs(site, records, num_rounds=AT_LENGTH)
        wait_for_version(records, 1)
        wait_for_work(records, SLOW)
        kill_node(site, nodes[SLOW])
        killed, at = time.monotonic(), version(records)
        again, refused = start_until_let_in(site, configs[SLOW], f"node{SLOW}")
        back = time.monotonic() - killed
        wait_until(lambda: bool(seen(records, "failed")), "the end of its work", 0.5)
        gone = time.monotonic() - killed
        rounds = version(records) - at
        wait_until(lambda: accepted_of(records, again.node_id) > 0, "its first update", 0.5)
        stop(site)
    assert_sequence(records)
    assert again.node_id == nodes[SLOW].node_id
    failed = only(records, "failed", nodes[SLOW].node_id)
    assert failed["code"] == "gone"
    return (
        f"The piece of work it had was lost and given up {gone:.0f} s after the kill (reported as "
        f"'{failed['code']}'); {rounds} rounds were made meanwhile. Started again with its key it "
        f"was turned away {refused} times and let in after {back:.0f} s under the same id, and its "
        "updates counted."
    )


def clientapp_raises(folder: Path) -> str:
    """That piece of work is lost, and the node is asked again in the next round."""
    return client_fails(folder, "raise")


def clientapp_dies(folder: Path) -> str:
    """That piece of work is lost, which Flower tells a minute later."""
    return client_fails(folder, "die")


ROWS: dict[str, Callable[[Path], str]] = {
    row.__name__: row
    for row in (
        serverapp_killed,
        superlink_killed,
        superlink_killed_in_process_isolation,
        supernode_killed_without_key,
        supernode_killed_with_key,
        clientapp_raises,
        clientapp_dies,
    )
}


# --- what the rows share ------------------------------------------------------------------


def records_in(folder: Path) -> Records:
    """Return where a row's run leaves its records."""
    return Records(folder / "run", folder / "trace")


def client_fails(folder: Path, how: str) -> str:
    """Let one ClientApp fail once."""
    records, unlucky = records_in(folder), 1
    with open_blobs_site(folder) as site:
        nodes = site.start_nodes(*three_nodes(slow_rounds=0))
        node = nodes[unlucky]
        give_order(records, unlucky, how)
        run_blobs(site, records, num_rounds=AT_LENGTH)
        wait_until(lambda: bool(seen(records, "failed")), "the end of its work", 0.1)
        at = version(records)
        wait_until(lambda: accepted_of(records, node.node_id) > 0, "its next update", 0.1)
        stop(site)
        assert node.process.poll() is None
    assert_sequence(records)
    failed = only(records, "failed", node.node_id)
    assert failed["code"] == "failed"
    seconds = failed["time"] - began_lost_work(records, node)
    return (
        f"The piece of work was lost and given up {seconds:.0f} s later ('{failed['reason']}'), "
        f"when the server was at version {at}. The node was asked again and its update counted."
    )


def began_lost_work(records: Records, node: Program) -> float:
    """Return when a node began the first piece of work that it never answered."""
    began = []
    for path in records.trace.glob("work-*.json"):
        facts = json.loads(path.read_text())
        if facts["node"] == str(node.node_id) and "sent" not in facts:
            began.append(path.stat().st_mtime)
    return min(began)


def start_until_let_in(site: Site, config: dict[str, Value], key: str) -> tuple[Program, int]:
    """Start a SuperNode again and again; return the one that was let in, and refusals."""
    end, refused = time.monotonic() + HANGS, 0
    while time.monotonic() < end:
        node = site.start_node(config, key=key)
        try:
            node.wait_for("SuperNode ID: ")
        except RuntimeError:
            assert "Exit Code: 305" in node.text(), node.text()
            refused += 1
            continue
        return node, refused
    raise TimeoutError(f"It was not let in for {HANGS:.0f} s.")


def wait_for_work(records: Records, partition: int) -> dict[str, Any]:
    """Wait until a node works, and return on what."""
    found: list[dict[str, Any]] = []

    def works() -> bool:
        found[:] = [w for w in records.work() if w["partition"] == partition and "sent" not in w]
        return bool(found)

    wait_until(works, f"work of partition {partition}")
    return found[0]


def kill_node(site: Site, node: Program) -> None:
    """Kill a SuperNode as when its machine goes: with the processes that work for it."""
    site.kill_program(node)


def stop(site: Site) -> None:
    """Stop the run, so that its records can be read."""
    site.kill_server_app()


def accepted_of(records: Records, node_id: int) -> int:
    """Return how many updates of a node were accepted."""
    return sum(e["node"] == str(node_id) for e in seen(records, "accepted"))


def only(records: Records, kind: str, node_id: int) -> dict[str, Any]:
    """Return the one event of its kind, which is a node's."""
    (event,) = records.events(kind)
    assert event["node"] == str(node_id)
    return event


def versions_after(records: Records, done: int) -> list[dict[str, Any]]:
    """Return the versions made after one."""
    return [e for e in records.events("version") if e["version"] > done]


def ids(nodes: list[Program]) -> set[str]:
    """Return the ids of nodes as the event log has them."""
    return {str(node.node_id) for node in nodes}


def main(names: list[str]) -> None:
    """Run rows and print what was seen."""
    watch_this_process()
    for name in names or ROWS:
        row, began = ROWS[name], time.monotonic()
        print(f"{name}: {(row.__doc__ or '').strip()}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            observed = row(Path(folder))
        print(f"  {observed} [row: {time.monotonic() - began:.0f} s]", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
