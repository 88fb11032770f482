"""`kill -9` of the ServerApp at five random moments: nothing accepted is lost or counted twice."""

import random
import time

import pytest

pytestmark = pytest.mark.slow

ROUNDS = 12
LATE = 2  # the slow node answers once the server is so many versions further
KILLS = 5
BEFORE_ROUND = 9  # the rest is for the slow node to get a word in


def test_five_kills(tmp_path):
    from blobs_site import assert_sequence, open_blobs_site, run_blobs
    from deployment import three_nodes
    from records import Records
    from replay import replay, schedule_of, undisturbed

    records = Records(tmp_path / "run", tmp_path / "trace")
    with open_blobs_site(tmp_path) as site:
        nodes = site.start_nodes(*three_nodes(slow_rounds=LATE))
        draw = random.Random(4711)
        run = run_blobs(site, records, num_rounds=ROUNDS)
        for moment in sorted(draw.uniform(0, BEFORE_ROUND) for _ in range(KILLS)):
            kill_at(moment, site, records)
            run = run_blobs(site, records, num_rounds=ROUNDS)
        assert site.wait(run, 600) == "finished:completed", site.log_of(run)
    assert_sequence(records)
    assert [e["version"] for e in records.events("version")] == list(range(1, ROUNDS + 1))
    assert 1 < len(records.events("resumed")) <= KILLS  # one may be killed before it resumes
    assert len(records.rounds()) == ROUNDS
    slow = str(nodes[-1].node_id)
    assert any(e["version"] - 1 > base for e in records.events("version")
               for node, base in e["updates"] if node == slow)  # fmt: skip

    # The model is, bit by bit, what a server makes of these updates that nobody ever killed.
    partition_of = {str(node.node_id): number for number, node in enumerate(nodes)}
    made, ended = replay(schedule_of(records), partition_of, "convert")
    said = {version: weights for weights, version in records.version_of().items()}
    assert [said[version] for version in range(ROUNDS + 1)] == made
    assert records.rounds()[-1]["accuracy"] == pytest.approx(ended["accuracy"])
    # And it is as good as after the same number of rounds without a crash.
    _, without = replay(undisturbed(ROUNDS, LATE), {"0": 0, "1": 1, "2": 2}, "convert")
    assert ended["accuracy"] == pytest.approx(without["accuracy"], abs=0.05)


def kill_at(moment, site, records):
    """Kill the ServerApp at a moment counted in rounds."""
    from blobs_site import seconds_of, wait_for_server_app, wait_for_version

    whole = int(moment)
    wait_for_server_app(site)
    wait_for_version(records, whole)
    time.sleep((moment - whole) * seconds_of(records))
    site.kill_server_app()
