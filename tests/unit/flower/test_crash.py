"""A process that dies at any moment: nothing accepted is lost or counted twice."""

import json
import random

import pytest
import torch
from killing import Killed, killed_at
from pretend_clients import (
    claims,
    examples_of,
    late_grid,
    moved_by,
    small_model,
)

from unstale.errors import CheckpointError
from unstale.flower import Unstale

pytestmark = pytest.mark.usefixtures("in_a_run")

NODES = (3, 4, 5)
EVIL = 6
ROUNDS = 3


@pytest.fixture(autouse=True)
def _no_commit_is_looked_up(monkeypatch):
    """Hundreds of runs begin here; asking git each time would take longer than they do."""
    monkeypatch.setattr("unstale.flower.run_log.describe_environment", lambda *_: {})


def nodes(slow=True):
    """Three nodes, one of them two rounds late if wanted, and one that sends nonsense."""
    return late_grid(
        dict.fromkeys((*NODES, EVIL), 0.01),
        {EVIL: claims(-1)},
        delay=lambda node: 2 if slow and node == 5 else 0,
    )


def run(folder, *, slow=True, resume=False, rounds=ROUNDS):
    it = Unstale(small_model(), "unweighted", folder=folder)
    it.start(nodes(slow), num_rounds=rounds, resume=resume)
    return it.server


def calls_of_a_run(folder, **options):
    with killed_at(None) as calls:
        run(folder, **options)
    return calls[0]


def events_of(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def check(folder, server, undone=()):
    """The events are gapless, and the model is exactly what they say."""
    events = events_of(folder)
    assert [e["seq"] for e in events] == list(range(len(events)))
    assert events[0]["event"] == "started"
    versions = [e for e in events if e["event"] == "version"]
    assert [e["version"] for e in versions] == list(range(1, ROUNDS + 1))
    accepted = [(e["node"], e["base_version"]) for e in events if e["event"] == "accepted"]
    assert len(accepted) == len(set(accepted)), "accepted twice"
    taken = [tuple(update) for e in versions for update in e["updates"]]
    assert len(taken) == len(set(taken)), "counted twice"
    waiting = {path.stem for path in (folder / "journal").glob("*.safetensors")}
    for node, base in set(accepted) - set(taken):
        assert f"{base:010d}-{node}" in waiting, "accepted and lost"
        assert node == "5"  # whose emulated lateness goes beyond the end
    assert set(taken) <= set(accepted)
    last = {f"{base:010d}-{node}" for node, base in versions[-1]["updates"]}
    unused = {f"{base:010d}-{node}" for node, base in set(accepted) - set(taken)}
    assert waiting == last | unused, "the journal should forget what two checkpoints hold"
    assert not any(e["event"] == "lost" for e in events)
    bias = small_model().bias.item()
    for event in versions:
        assert all(base < event["version"] for _, base in event["updates"])
        shares = [(examples_of(int(n)), moved_by(int(n), b)) for n, b in event["updates"]]
        if shares:
            bias += sum(k * moved for k, moved in shares) / sum(k for k, _ in shares)
    assert server.params["bias"].item() == pytest.approx(bias, abs=1e-12)
    lines = (folder / "rounds/unweighted/seed-0.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == list(range(1, ROUNDS + 1))
    accepted_late = [t for e in versions for t in e["updates"] if t[1] < e["version"] - 1]
    return len(accepted_late)


def test_without_a_crash_the_check_holds(tmp_path):
    server = run(tmp_path)
    assert check(tmp_path, server) > 0


@pytest.mark.parametrize("part", range(4))
def test_killed_at_every_change_of_the_disk(part, tmp_path):
    total = calls_of_a_run(tmp_path / "whole")
    assert total > 100
    for number in range(1 + part, total + 1, 4):
        folder = tmp_path / str(number)
        with killed_at(number, half=True), pytest.raises(Killed):
            run(folder)
        with killed_at(None):
            server = run(folder, resume=True)
        check(folder, server)


def test_with_fast_nodes_a_crash_changes_no_bit_of_the_model(tmp_path):
    with killed_at(None) as calls:
        wanted = run(tmp_path / "whole", slow=False).params
    for number in range(1, calls[0] + 1, 5):
        folder = tmp_path / str(number)
        with killed_at(number), pytest.raises(Killed):
            run(folder, slow=False)
        with killed_at(None):
            server = run(folder, slow=False, resume=True)
        check(folder, server)
        assert all(torch.equal(server.params[name], wanted[name]) for name in wanted)


def test_killed_again_and_again_while_resuming(tmp_path):
    rng = random.Random(0)
    total = calls_of_a_run(tmp_path / "whole")
    for trial in range(15):
        folder = tmp_path / str(trial)
        crashes = 0
        for _ in range(200):
            try:
                with killed_at(rng.randint(1, total // 2), half=rng.random() < 0.5):
                    server = run(folder, resume=True)
                break
            except Killed:
                crashes += 1
        assert crashes or trial
        check(folder, server)


def test_a_finished_run_has_nothing_left_to_do(tmp_path):
    run(tmp_path)
    before = events_of(tmp_path)
    server = run(tmp_path, resume=True)
    check(tmp_path, server)
    assert [e["event"] for e in events_of(tmp_path)[len(before) :]] == ["resumed", "finished"]


def test_open_work_of_a_dead_run_is_released_and_handed_out_again(tmp_path):
    with killed_at(None):
        run(tmp_path, rounds=2)  # node 5 works on version 0 until round 3
        again = nodes()
        it = Unstale(small_model(), "unweighted", folder=tmp_path)
        it.start(again, num_rounds=2, resume=True)
    # Its answer was pulled already and lies in the journal, so it is not asked again.
    assert it.server.outstanding == [0]
    for path in (tmp_path / "journal").glob("*-5.safetensors"):
        path.unlink()
    it.start(again, num_rounds=3, resume=True)
    assert ["5", 0] in [e for e in events_of(tmp_path) if e["event"] == "resumed"][-1]["released"]
    asked = [m for m in again.below.pushed if m.metadata.dst_node_id == 5]
    assert [m.content["config"]["unstale-version"] for m in asked] == [2]
    assert it.server.outstanding == [2]


def versions_asked(grid, node):
    sent = [m for m in grid.below.pushed if m.metadata.dst_node_id == node]
    return [m.content["config"]["unstale-version"] for m in sent]


def test_what_was_answered_before_the_crash_is_not_asked_again(tmp_path):
    class StopError(Exception):
        pass

    def stops(version, arrays):
        if version == 2:
            raise StopError

    with killed_at(None):
        it = Unstale(small_model(), "unweighted", folder=tmp_path)
        with pytest.raises(StopError):
            it.start(nodes(), num_rounds=ROUNDS, evaluate_fn=stops)
        # All answers of round 2 are journaled; its checkpoint was never written.
        again = nodes()
        it = Unstale(small_model(), "unweighted", folder=tmp_path)
        it.start(again, num_rounds=5, resume=True)
    assert versions_asked(again, 3) == [2, 3, 4]
    assert versions_asked(again, EVIL) == [1, 2, 3, 4]  # nothing of it was accepted
    assert versions_asked(again, 5) == [3]  # it counts as working on version 0 in round 3 as well


def damage_newest(folder):
    newest = max((folder / "checkpoints").glob("checkpoint-*.json"))
    newest.write_text("{")


def test_a_damaged_checkpoint_costs_no_accepted_update(tmp_path):
    with killed_at(None):
        run(tmp_path, rounds=3)
    damage_newest(tmp_path)
    with killed_at(None):
        server = run(tmp_path, resume=True)
    events = events_of(tmp_path)
    resumed = next(e for e in events if e["event"] == "resumed")
    assert (resumed["version"], resumed["undone"]) == (2, [3])
    first = next(i for i, e in enumerate(events) if e["event"] == "version" and e["version"] == 3)
    undone = events.pop(first)
    again = next(e for e in events if e["event"] == "version" and e["version"] == 3)
    # The fast nodes' updates of the undone version take part in the one that replaces it.
    assert [u for u in undone["updates"] if u not in again["updates"]] == []
    assert server.version == ROUNDS


def test_without_any_sound_checkpoint_it_says_so(tmp_path):
    run(tmp_path, rounds=1)
    for path in (tmp_path / "checkpoints").glob("checkpoint-*.json"):
        path.write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        run(tmp_path, resume=True)


def test_a_damaged_journal_entry_is_told(tmp_path):
    with killed_at(None):
        run(tmp_path, rounds=2)
    (path,) = (tmp_path / "journal").glob("*-5.safetensors")
    path.write_bytes(b"")
    with killed_at(None):
        run(tmp_path, resume=True)
    resumed = [e for e in events_of(tmp_path) if e["event"] == "resumed"][-1]
    assert resumed["damaged"] == [path.stem]
