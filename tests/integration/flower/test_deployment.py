"""A SuperLink and three SuperNodes: the slow one's updates come late and are put right."""

import json

import pytest

pytestmark = pytest.mark.slow

ROUNDS = 11
LATE = 3  # the slow node answers once the server is so many versions further


def test_late_updates_are_matched_converted_and_aggregated(tmp_path):
    from deployment import open_site, three_nodes
    from records import Records, assert_matched_and_converted

    with open_site(tmp_path) as site:
        nodes = site.start_nodes(*three_nodes(slow_rounds=LATE))
        records = Records(tmp_path / "run", tmp_path / "trace")
        run = site.run_probe(records, num_rounds=ROUNDS)
        assert site.wait(run) == "finished:completed", site.log_of(run)
    fast, slow = {str(node.node_id) for node in nodes[:-1]}, str(nodes[-1].node_id)
    assert_matched_and_converted(records, slow, late_by=LATE, at_least=2)

    # The server's function got the records of the replies that a round used, late ones too.
    measured = json.loads((records.trace / "train-metrics.json").read_text())
    for event in records.events("version"):
        by_function = measured[str(event["version"])]
        nodes = [int(node) % 2**31 for node, _ in event["updates"]]
        assert sorted(by_function["nodes"]) == sorted(nodes)
        assert by_function["sums"] == [len(nodes), 2 * len(nodes)]

    lines = records.rounds()
    assert len(lines) == ROUNDS
    for line in lines:
        answered, working = line["nodes"]["answered"], line["nodes"]["working"]
        # Fast nodes are not held up by the slow one, which is not asked while it works.
        assert fast <= set(answered)
        assert (slow in answered) != (slow in working)
    # Nobody else holds the class: it is unknown before the slow node's first update comes.
    first = next(line["round"] for line in lines if slow in line["nodes"]["answered"])
    assert first > LATE
    assert max(line["affected_accuracy"] for line in lines[1 : first - 1]) < 0.1
    assert lines[first - 1]["affected_accuracy"] > 0.5
