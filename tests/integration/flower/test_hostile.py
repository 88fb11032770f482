"""A node that sends something bad in every round: the run goes on as if it were not there."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

APP = Path(__file__).parent / "hostile_app"

# The code under which each attack is refused, and what the reason has to tell.
REFUSED = {
    "nan_weights": ("not_finite", "Found NaN or infinity in ['weight']"),
    "infinite_weights": ("not_finite", "Found NaN or infinity in ['bias']"),
    "huge_norm": ("norm", "should be at most 100 (a limit of this server)"),
    "many_examples": ("num_examples", "Found 1000000000000000000"),
    "negative_examples": ("num_examples", "Found -10"),
    "lie_about_version": ("version", "on which this node was set to work"),
    "wrong_shape": ("shape", "should have the shape (3, 4). Found (1,)"),
    "wrong_dtype": ("dtype", "should be float32. Found 'float64'"),
    "no_records": ("records", "exactly one ArrayRecord. Found 0"),
    "empty_record": ("names", "Missing: ['bias', 'weight']"),
    "garbage_bytes": ("payload", "should be NumPy's .npy bytes"),
    "lying_metadata": ("metadata", "It says 'float32' of shape (4, 3)"),
    "promise_of_terabytes": ("shape", "Found (1000000000000,)"),
    "pickled_code": ("dtype", "Found 'object'"),
    "little_that_unpacks_to_much": ("size", "(a limit of this server). Found 131072"),
    "garbage_message": ("unreadable", "JSONDecodeError"),
    "garbage_message_again": ("unreadable", "JSONDecodeError"),
}


def test_a_hostile_node_neither_stops_the_run_nor_moves_the_model(tmp_path):
    from deployment import open_site
    from hostile_app.attacks import ATTACKS
    from records import Records

    names = [attack.__name__ for attack in ATTACKS]
    assert names == [*REFUSED]
    records = Records(tmp_path / "run", tmp_path / "trace")
    marker = tmp_path / "unpickled"
    configs = [{"partition-id": 0}, {"partition-id": 1}, {"partition-id": 2, "hostile": True}]
    with open_site(tmp_path) as site:
        nodes = site.start_nodes(*configs)
        run = site.run(
            APP, folder=str(records.folder), trace=str(records.trace), marker=str(marker),
            num_rounds=len(names) + 1,  # in the last one it behaves
        )  # fmt: skip
        assert site.wait(run) == "finished:completed", site.log_of(run)
        log = site.log_of(run)
    ids = [str(node.node_id) for node in nodes]

    assert not marker.exists()
    assert_each_refused(records, hostile=ids[-1], log=log)
    assert_the_model_is_that_of_honest_work(records, ids)


def assert_each_refused(records, hostile, log):
    """Check node, reason and count of every attack: in the events, the round lines, the log."""
    events = [e for e in records.events() if e["event"] in ("refused", "failed")]
    against = [e for e in events if e["node"] == hostile]
    assert [e["sent_in_round"] for e in against] == [*range(1, len(REFUSED) + 1)]
    rounds, versions = records.rounds(), records.events("version")
    for event, (name, (code, reason)) in zip(against, REFUSED.items(), strict=True):
        number = event["sent_in_round"]
        assert (event["code"], event["base_version"]) == (code, number - 1), name
        assert reason in event["reason"], name
        assert f"refused: {hostile}, {code}: {event['reason']}" in log, name
        told = {"node": hostile, "code": code, "reason": event["reason"]}
        assert told in rounds[number - 1]["nodes"]["refused"], name
        counted = Counter(e["code"] for e in events if e["sent_in_round"] == number)
        assert rounds[number - 1]["refused"] == versions[number - 1]["refused"] == counted, name
    # What Flower can't unpack may take replies with it that were pulled together with it, of
    # which the log tells; but only once.
    others = [e for e in events if e["node"] != hostile]
    first = [*REFUSED].index("garbage_message") + 1
    assert all((e["code"], e["sent_in_round"]) == ("unreadable", first) for e in others)


def assert_the_model_is_that_of_honest_work(records, ids):
    """Do the run again with honest work alone: every version is the same to the bit."""
    import torch
    from hostile_app import honest
    from hostile_app.server_app import build_model

    import unstale as us

    versions, rounds = records.events("version"), records.rounds()
    server = us.Server(build_model(), "unweighted")
    made = [server.params]
    for number, (event, line) in enumerate(zip(versions, rounds, strict=True), start=1):
        nodes = [node for node, _ in event["updates"]]
        may = {*ids} if number == len(versions) else {*ids[:-1]}
        assert nodes
        # Whoever has not answered was held up by its own machine, not by the hostile node.
        assert {*nodes} == may & {*line["nodes"]["answered"]}

        total, moved = 0, dict.fromkeys(made[0], 0)
        for node, base in event["updates"]:
            before = {name: p.numpy() for name, p in made[base].items()}
            work = honest.trained(before, ids.index(node))
            delta = {name: torch.from_numpy(work[name]) - p for name, p in made[base].items()}
            examples = honest.num_examples(ids.index(node))
            assert server.submit(us.Update(node, base, delta, examples)).accepted
            total += examples
            moved = {n: moved[n] + examples * (work[n].astype(float) - before[n]) for n in moved}
        server.step()
        with np.load(records.trace / f"version-{number}.npz") as found:
            assert {*found} == {*made[0]}
            for name, p in server.params.items():
                assert np.array_equal(found[name], p.numpy()), (number, name)
                # And it is FedAvg's, by a computation of its own.
                expected = made[-1][name].numpy() + moved[name] / total
                np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
                assert np.abs(found[name] - made[-1][name].numpy()).max() > 1e-4
        made.append(server.params)
