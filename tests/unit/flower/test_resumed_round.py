"""The round in which a process died, once another one goes on with it."""

import json

import pytest
from late_grid_world import A, B, C, train, world
from pretend_clients import (
    late_grid,
    small_model,
)

from unstale.flower import ClosePolicy, Cohort, Unstale
from unstale.flower.work_book import Inherited

pytestmark = pytest.mark.usefixtures("in_a_run")

SLOW = 5
NODES = {3: 1.0, 4: 2.0, SLOW: 500.0}


class DiedError(Exception):
    """Stands for a process that dies while it evaluates: its round is not written down."""


def dies_in(round):
    def evaluate(version, arrays):
        if version == round:
            raise DiedError

    return evaluate


def strategy(folder, **options):
    return Unstale(small_model(), "unweighted", folder=folder, **options)


def died(folder, grid, round, **options):
    with pytest.raises(DiedError):
        strategy(folder, **options).start(grid, num_rounds=round, evaluate_fn=dies_in(round))


def asked(grid):
    return [m.metadata.dst_node_id for m in grid.below.pushed]


def versions(folder):
    lines = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    return [e for e in lines if e["event"] == "version"]


def test_answers_from_before_help_to_close_it(tmp_path):
    """Two of three close a round, and two are here: nobody waits for the third, which is slow."""
    died(tmp_path, late_grid(NODES, close=ClosePolicy(fraction=0.6)), 1)
    again = late_grid(NODES, close=ClosePolicy(fraction=0.6))
    strategy(tmp_path).start(again, num_rounds=1, resume=True)
    assert asked(again) == [SLOW]
    assert again.last_round.seconds < 1
    assert versions(tmp_path)[0]["updates"] == [["3", 0], ["4", 0]]


def test_who_was_slow_is_slow(tmp_path):
    close = ClosePolicy(deadline=10)
    died(tmp_path, late_grid(NODES, close=close), 2)
    again = late_grid(NODES, close=close)
    strategy(tmp_path).start(again, num_rounds=3, resume=True)
    # In round 1 all were waited for until the deadline, and never again.
    assert not again.is_fast(SLOW)
    assert again.clock.now - 1000 < 5


def test_answers_from_before_count_as_part_of_the_cohort(tmp_path):
    many = dict.fromkeys(range(3, 13), 1.0)
    cohort = Cohort(fraction_train=0.4, min_train_nodes=1)
    died(tmp_path, late_grid(many, close=ClosePolicy()), 1, cohort=cohort)
    entries = sorted((tmp_path / "journal").glob("*.safetensors"))
    assert len(entries) == 4
    entries[0].unlink()  # one of four had not answered when the process died
    again = late_grid(many)
    strategy(tmp_path, cohort=cohort).start(again, num_rounds=2, resume=True)
    assert [len(e["updates"]) for e in versions(tmp_path)] == [4, 4]
    assert len(asked(again)) == 1 + 4


def test_a_round_counts_what_was_there_before():
    _, _, late = world({A: 1, B: 3, C: None}, ClosePolicy(fraction=0.5))
    assert train(late, A, B, C) == {A: 0, B: 0}, "two of three"
    _, _, late = world({A: 1, B: 3, C: None}, ClosePolicy(fraction=0.5))
    assert train(late, A, B, C, inherited=Inherited(answered=1, arrivals=1)) == {A: 0}, (
        "two of four"
    )
    _, _, late = world({A: 1, B: 3, C: None}, ClosePolicy(fraction=0.3, min_replies=3))
    assert train(late, A, B, C, inherited=Inherited(arrivals=1)) == {A: 0, B: 0}, "three in all"


def test_slow_nodes_of_before_are_not_waited_for():
    clock, _, late = world({A: 1, C: 50})
    late.resume_at(8, slow=[C])
    assert train(late, A, C) == {A: 0}
    assert clock.now - 1000 < 2
    assert late.slow_nodes() == [C]
