"""The example on Flower: a node that trains by another recipe than the server's is noticed."""

import pytest

pytestmark = pytest.mark.slow

NODES, ROUNDS = 6, 10
ODD = 1  # the partition that trains with a third of the learning rate


@pytest.mark.parametrize("odd", [ODD, None], ids=["a third of the learning rate", "honest"])
def test_another_learning_rate_is_noticed_and_honest_nodes_are_not(odd, tmp_path):
    from deployment import open_site
    from records import Records

    records = Records(tmp_path / "run", tmp_path / "trace")
    options = {} if odd is None else {"odd_partition": odd, "odd_factor": 1 / 3}
    with open_site(tmp_path, simulated_nodes=NODES) as site:
        run = site.run_probe(
            records, num_rounds=ROUNDS, min_nodes=NODES, close_fraction=1.0, **options
        )
        assert site.wait(run) == "finished:completed", site.log_of(run)
        log = site.log_of(run)
    partition_of = {work["node"]: work["partition"] for work in records.work()}
    assert sorted(partition_of.values()) == list(range(NODES))
    found = [
        (line["round"], partition_of[one["client"]], one["found"])
        for line in records.rounds()
        for one in line.get("other_recipes", ())
    ]
    if odd is None:
        assert found == []
        assert "another recipe" not in log
        return
    ((round_, partition, recipe),) = found
    assert (partition, recipe) == (ODD, "slower")
    assert round_ == 8  # looked at in rounds 2 and 4, and compared in rounds 6 to 8
    assert "look like training" in log
