"""`kill -9` of the ServerApp at random points: nothing accepted is lost or counted twice."""

import contextlib
import os
import random
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROUNDS = 12  # or more
LATE = 2  # the slow node answers once the server is so many versions further
AT_LENGTH = 200  # rounds of a run that is killed: it never comes so far


@pytest.mark.parametrize(
    ("method", "sinks"), [("convert", ""), ("memory", "tensorboard mlflow wandb")]
)
def test_five_kills(method, sinks, tmp_path):
    """Both methods stand in for the slow node while it works; sinks get each round once."""
    from blobs_site import (
        assert_sequence,
        open_blobs_site,
        run_blobs,
        version,
        wait_for_version,
    )
    from deployment import three_nodes, wait_until
    from records import Records
    from replay import replay, schedule_of, undisturbed

    records = Records(tmp_path / "run", tmp_path / "trace")
    with open_blobs_site(tmp_path) as site:
        nodes = site.start_nodes(*three_nodes(slow_rounds=LATE))
        slow = str(nodes[-1].node_id)
        draw = random.Random(4711)
        for point in draw.sample([*POINTS], len(POINTS)):
            run_blobs(site, records, method=method, sinks=sinks, num_rounds=AT_LENGTH)
            kill_at(point, draw.randint(0, 2), site, records)
        # Once more when the slow node has got a word in, and then to the end.
        before = version(records)
        run_blobs(site, records, method=method, sinks=sinks, num_rounds=AT_LENGTH)
        wait_for_version(records, before + 1)
        wait_until(lambda: counted_late(records, slow), "an update of the slow node", 0.02)
        site.kill_server_app()
        last = max(ROUNDS, version(records) + 2)
        run = run_blobs(site, records, method=method, sinks=sinks, num_rounds=last)
        assert site.wait(run) == "finished:completed", site.log_of(run)
    assert_sequence(records)
    assert [e["version"] for e in records.events("version")] == list(range(1, last + 1))
    # The one that is killed at its start may not have come so far.
    assert len(records.events("resumed")) in (len(POINTS), len(POINTS) + 1)
    assert len(records.rounds()) == last
    assert counted_late(records, slow)
    assert_apart(records)
    if sinks:
        assert_in_sinks(records)
    if method == "memory":  # whether a surrogate can be trusted depends on who came when
        assert any(slow in e["stand_ins"] for e in records.events("version"))

    # The model is, bit by bit, what a server makes of these updates that nobody ever killed.
    partition_of = {str(node.node_id): number for number, node in enumerate(nodes)}
    made, ended = replay(schedule_of(records), partition_of, method)
    said = {version: weights for weights, version in records.version_of().items()}
    assert [said[version] for version in range(last + 1)] == made
    assert records.rounds()[-1]["accuracy"] == pytest.approx(ended["accuracy"])
    # And it is as good as after the same number of rounds without a crash.
    _, without = replay(undisturbed(last, LATE), {"0": 0, "1": 1, "2": 2}, method)
    assert ended["accuracy"] == pytest.approx(without["accuracy"], abs=0.05)


def assert_in_sinks(records):
    """Check that each library has every round of the run once, with the line's numbers."""
    from read_back import mlflow, tensorboard, wandb

    lines = records.rounds()
    events = tensorboard(records.folder / "tensorboard" / "memory" / "seed-0")
    run, metrics = mlflow(records.folder, "memory seed 0")
    (offline,) = wandb(records.folder).values()
    assert (run.info.status, offline["exit"]) == ("FINISHED", [0])
    for scalars in (events, metrics, offline["scalars"]):
        for name, key in (("accuracy/all", "accuracy"), ("arrivals/all", "arrivals")):
            assert [step for step, _ in scalars[name]] == [line["round"] for line in lines]
            values = [value for _, value in scalars[name]]
            assert values == pytest.approx([line[key] for line in lines])


def assert_apart(records):
    """Check that nobody was stood in for beside its own update, or without being absent."""
    for event, line in zip(records.events("version"), records.rounds(), strict=True):
        assert {*event["stand_ins"]} <= {*event["absent"]}
        assert not {*event["absent"]} & {node for node, _ in event["updates"]}
        assert [one["client"] for one in line.get("stand_ins", [])] == event["stand_ins"]


def counted_late(records, node):
    """Return how many late updates of a node made a version."""
    from blobs_site import seen

    return sum(
        e["version"] - 1 > base for e in seen(records, "version") for n, base in e["updates"]
        if n == node
    )  # fmt: skip


# Traces that a running server leaves, and where a kill is interesting: when it has just begun,
# when work has gone out, when a reply has been accepted but not yet counted, when a new version is
# evaluated but not yet in a checkpoint, when it is in one.
POINTS = {
    "start": None,
    "work": lambda records: len([*records.trace.glob("work-*.json")]),
    "accepted": lambda records: events_text(records).count(b'"event": "accepted"'),
    "evaluated": lambda records: len([*records.trace.glob("version-*.json")]),
    "version": lambda records: events_text(records).count(b'"event": "version"'),
}


def events_text(records):
    path = records.folder / "events.jsonl"
    return path.read_bytes() if path.exists() else b""


def holds_lock(site, records):
    """Return whether a ServerApp has the lock of the run folder open."""
    from marked_processes import marked

    lock = str(records.folder / ".lock")
    for pid in marked(site.mark, "flwr-serverapp"):
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):  # it may be gone by now
                if os.readlink(link) == lock:
                    return True
    return False


def kill_at(point, versions, site, records):
    """Kill the ServerApp as soon as it has made so many versions and then left one more trace."""
    from blobs_site import version, wait_for_server_app, wait_for_version
    from deployment import wait_until

    before = version(records)
    wait_for_server_app(site)
    # A process that dies before it has taken up its run is started once more by Flower, and two
    # would work on the folder. One that holds the folder's lock has taken it up.
    wait_until(lambda: holds_lock(site, records), "a ServerApp with the lock", 0.01)
    if (count := POINTS[point]) is not None:
        wait_for_version(records, before + versions)
        already = count(records)
        wait_until(lambda: count(records) > already, f"one more: {point}", 0.01)
    site.kill_server_app()
