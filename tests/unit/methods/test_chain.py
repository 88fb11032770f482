"""Dropping, passing on, and chains: order, memories and notes."""

from dataclasses import dataclass

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError
from unstale.methods import Stateless


@dataclass(frozen=True, slots=True)
class Counting(Stateless):
    """Remembers how many updates it has seen."""

    def init(self):
        return {"seen": 0}

    def apply(self, updates, state, view):
        return us.Outcome(tuple(updates), {"seen": state["seen"] + len(updates)})


def updates_of(three, *staleness, version=10):
    return [us.Update(f"c{s}", version - s, three(1.0, 2.0, 3.0), 10) for s in staleness]


def test_drop_keeps_up_to_its_bound(view, three):
    arrivals = updates_of(three, 0, 4, 5, 6)
    outcome = us.Drop(max_staleness=5).apply(arrivals, {}, view(10, three(0, 0, 0)))
    assert [u.client_id for u in outcome.updates] == ["c0", "c4", "c5"]
    assert [(n.kind, n.client_id, n.detail) for n in outcome.notes] == [
        ("dropped", "c6", {"staleness": 6})
    ]


@pytest.mark.parametrize("bound", [-1, 1.5, True, "5"])
def test_drop_refuses_bounds_that_are_no_count(bound):
    with pytest.raises(ConfigError, match="max_staleness"):
        us.Drop(max_staleness=bound)


def test_identity_passes_everything_on(view, three):
    arrivals = updates_of(three, 0, 50)
    outcome = us.Identity().apply(arrivals, {}, view(60, three(0, 0, 0)))
    assert outcome.updates == tuple(arrivals)
    assert outcome.notes == ()


def test_a_chain_hands_on_what_the_part_before_returned(view, three):
    base, now = three(0.0, 0.0, 0.0), three(1.0, 1.0, 1.0)
    both = us.chain(us.Drop(8), us.FirstOrder(lam=0.5), us.PolynomialWeight(a=0.5))
    arrivals = updates_of(three, 3, 9)
    outcome = both.apply(arrivals, both.init(), view(10, now, {7: base, 1: base}))
    (update,) = outcome.updates
    assert update.delta["w"].tolist() == [0.5, 0.0, -1.5]  # 1−.5, 2−.5·4, 3−.5·9
    assert update.weight == 0.5  # 1/√(1+3)
    assert sorted(n.kind for n in outcome.notes) == ["compensated", "dropped", "weighted"]


def test_the_order_of_parts_is_their_order_of_work(view, three):
    arrivals = updates_of(three, 9)
    for parts, seen in [((us.Drop(5), Counting()), 0), ((Counting(), us.Drop(5)), 1)]:
        both = us.chain(*parts)
        outcome = both.apply(arrivals, both.init(), view(10, three(0, 0, 0)))
        assert sum(part.get("seen", 0) for part in outcome.state["parts"]) == seen


def test_each_part_has_its_own_memory_and_keeps_it(view, three):
    both = us.chain(Counting(), us.chain(Counting(), us.Identity()))
    state = both.init()
    for _ in range(3):
        state = both.apply(updates_of(three, 0, 1), state, view(10, three(0, 0, 0))).state
    assert state == {"parts": [{"seen": 6}, {"parts": [{"seen": 6}, {}]}]}


def test_an_empty_chain_changes_nothing(view, three):
    arrivals = updates_of(three, 0, 7)
    outcome = us.chain().apply(arrivals, us.chain().init(), view(10, three(0, 0, 0)))
    assert outcome.updates == tuple(arrivals)


def test_a_chain_refuses_what_is_no_compensator():
    with pytest.raises(ConfigError, match="every part should be a compensator"):
        us.chain(us.Drop(3), torch.nn.Identity())
