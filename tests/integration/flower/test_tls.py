"""The same with TLS and node keys: registered nodes train, strangers are turned away."""

import pytest

pytestmark = pytest.mark.slow

ROUNDS = 7
LATE = 2


def test_registered_nodes_train_and_strangers_are_turned_away(tmp_path, certificates):
    from deployment import HANGS, open_site, three_nodes
    from make_certificates import make_certificates
    from records import Records, assert_matched_and_converted

    configs = three_nodes(slow_rounds=LATE)
    with open_site(tmp_path, certificates=certificates) as site:
        nodes = site.start_nodes(*configs)
        strangers = {
            "a key that nobody registered": site.start_node(configs[0], key="node3"),
            "no key at all": site.start_node(configs[0]),
            "the key of a node that is in": site.start_node(configs[0], key="node0"),
            "no TLS": site.start_node(configs[0], trust=("--insecure",)),
            "another CA": site.start_node(
                configs[0],
                key="node3",
                trust=("--root-certificates", make_certificates(tmp_path / "other", 0) / "ca.crt"),
            ),
        }
        records = Records(tmp_path / "run", tmp_path / "trace")
        run = site.run_probe(records, num_rounds=ROUNDS)
        for what, stranger in strangers.items():
            assert stranger.process.wait(HANGS) != 0, what
            assert "SuperNode ID" not in stranger.text(), what
            assert "Exit Code: 305" in stranger.text(), what
        assert site.wait(run) == "finished:completed", site.log_of(run)
    registered = {str(node.node_id) for node in nodes}
    assert_matched_and_converted(records, str(nodes[-1].node_id), late_by=LATE, at_least=1)
    assert {event["node"] for event in records.events("accepted")} == registered
    assert {work["node"] for work in records.work()} == registered
