"""Conversion of groups: what is summed, who gets what, and that nothing but sums is seen."""

import dataclasses
import itertools

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError
from unstale.methods import FedAvg, Stateless, in_groups
from unstale.methods.absence import stood_in_for
from unstale.methods.conversion.in_groups import groups_of_size, summed
from unstale.params import flatten, params_of, weighted_mean
from unstale.seeding import generator
from unstale.training.local import local_update
from unstale.updates import Note, Outcome

NOW = 9


@dataclasses.dataclass(frozen=True)
class Doubles(Stateless):
    """Doubles stale updates, notes what it sees, and stands in for whom it has seen."""

    seen: list

    def init(self):
        return {"known": {}}

    def apply(self, updates, state, view):
        self.seen.append([(u.client_id, u.base_version, u.num_examples) for u in updates])
        known = {**state["known"], **{u.client_id: dict(u.delta) for u in updates}}
        made = [
            dataclasses.replace(u, delta={"w": 2 * u.delta["w"]}, weight=u.weight / 2)
            for u in updates
        ]
        notes = [
            Note("converted", u.client_id, u.base_version, {"iterations": 7, "loss": 0.5})
            for u in updates
        ]
        away = [name for name in view.absent if name in known]
        made += [us.Update(n, view.version, known[n], 99, 0.5, stand_in=True) for n in away]
        notes += [Note("stood_in", n, view.version, {"age": 1, "weight": 0.5}) for n in away]
        return Outcome(tuple(made), {"known": known}, tuple(notes))

    def stands_in_for(self, state, version):
        return frozenset(state["known"])


def update(client, base, value, examples=10, weight=1.0):
    return us.Update(client, base, {"w": torch.tensor([value, 1.0])}, examples, weight)


def view_of(version=NOW, absent=()):
    params = {"w": torch.zeros(2)}
    rng = generator(0, "view")
    return us.ServerView(version, params, {}.get, us.LocalSpec(), rng, absent=tuple(absent))


@pytest.mark.parametrize(
    ("n", "size", "sizes"),
    [(1, 3, [1]), (2, 3, [2]), (3, 3, [3]), (5, 3, [5]), (6, 3, [3, 3]), (10, 3, [3, 3, 4]),
     (10, 10, [10]), (4, 1, [1, 1, 1, 1])],
)  # fmt: skip
def test_groups_are_never_smaller_than_they_have_to_be(n, size, sizes):
    updates = [update(f"c{i:02d}", 0, 1.0) for i in range(n)]
    found = groups_of_size(updates, size)
    assert [len(group) for group in found] == sizes
    assert [u.client_id for group in found for u in group] == [u.client_id for u in updates]
    for order in itertools.islice(itertools.permutations(updates), 1, 40, 13):
        assert groups_of_size(order, size) == found


def test_a_sum_is_the_mean_by_examples_and_weights():
    members = [update("a", 4, 1.0, 10, 0.5), update("b", 4, 4.0, 30, 1.0)]
    total = summed(members)
    # 5 and 30 of 40 examples count: (5 · 1 + 30 · 4) / 35.
    assert total.delta["w"].tolist() == pytest.approx([125 / 35, 1.0])
    assert (total.base_version, total.num_examples, total.weight) == (4, 40, 35 / 40)
    again = summed([dataclasses.replace(m, base_version=7) for m in members])
    assert again.client_id == total.client_id
    assert summed([update("a", 4, 1.0), update("c", 4, 1.0)]).client_id != total.client_id


def test_one_step_on_all_data_is_the_mean_of_the_members_steps():
    """Why a sum can be converted as one client: for one step this holds exactly."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    params, local = params_of(model), us.LocalSpec(lr=0.3, epochs=1)
    rng = generator(0, "data")
    x = torch.randn(9, 3, generator=rng, dtype=torch.float64)
    y = torch.arange(9) % 2
    parts = [slice(0, 2), slice(2, 6), slice(6, 9)]
    deltas = [local_update(model, params, x[p], y[p], local) for p in parts]
    joint = local_update(model, params, x, y, local)
    assert torch.allclose(flatten(weighted_mean(deltas, [2, 4, 3])), flatten(joint), rtol=1e-12)


def test_members_get_what_became_of_their_sum_and_nothing_else_is_seen():
    inner = Doubles([])
    late = [update(name, 4, float(i), 10 * (i + 1)) for i, name in enumerate("abcd")]
    other = update("e", 6, 8.0)
    fresh = [update("f", NOW, 5.0), update("g", NOW, 6.0)]
    arrivals = [*late, other, *fresh]
    grouped = in_groups(inner, size=2)
    outcome = grouped.apply(arrivals, grouped.init(), view_of())
    # Two sums of two, one of one (nobody else began at version 6), and no fresh update.
    assert [(base, examples) for _, base, examples in inner.seen[0]] == [(4, 30), (4, 70), (6, 10)]
    assert all(name.startswith("group-") for name, _, _ in inner.seen[0])
    assert [u.key for u in outcome.updates] == [u.key for u in arrivals]
    assert [u.delta for u in outcome.updates[5:]] == [u.delta for u in fresh]
    # What is aggregated is the same as if sums had been.
    sums = [summed(late[:2]), summed(late[2:]), summed([other])]
    doubled = [
        dataclasses.replace(s, delta={"w": 2 * s.delta["w"]}, weight=s.weight / 2) for s in sums
    ]
    wanted = FedAvg().apply([*doubled, *fresh], {}, view_of()).delta["w"]
    found = FedAvg().apply(outcome.updates, {}, view_of()).delta["w"]
    assert torch.allclose(found, wanted)
    # One note for each member; the work of a fit is counted once.
    assert [n.client_id for n in outcome.notes] == ["a", "b", "c", "d", "e"]
    assert sum(n.detail.get("iterations", 0) for n in outcome.notes) == 21


def test_absent_members_are_stood_in_for_with_their_share():
    inner = Doubles([])
    grouped = in_groups(inner, size=2)
    late = [update("a", 4, 1.0, 10), update("b", 4, 3.0, 30)]
    state = grouped.apply(late, grouped.init(), view_of()).state
    assert stood_in_for(grouped, state, NOW) == {"a", "b"}
    outcome = grouped.apply([], state, view_of(NOW + 1, absent=["b", "z"]))
    (made,) = outcome.updates
    assert (made.client_id, made.num_examples, made.weight, made.stand_in) == ("b", 20, 0.5, True)
    assert made.delta["w"].tolist() == [2.5, 1.0]
    assert [(n.kind, n.client_id) for n in outcome.notes] == [("stood_in", "b")]


def test_only_the_newest_group_of_a_client_is_remembered():
    grouped = in_groups(Doubles([]), size=2)
    state = grouped.init()
    for version, names in enumerate(["ab", "ac", "bc", "bc"]):
        arrivals = [update(name, version, 1.0) for name in names]
        state = grouped.apply(arrivals, state, view_of(version + 1)).state
        members = [m for group in state["groups"].values() for m in group["members"]]
        assert len(members) == len(set(members))
    assert [group["members"] for group in state["groups"].values()] == [["b", "c"]]


def test_what_is_dropped_inside_is_dropped_for_all():
    grouped = in_groups(us.Drop(max_staleness=3), size=2)
    arrivals = [update("a", 4, 1.0), update("b", 4, 1.0), update("c", 8, 1.0)]
    outcome = grouped.apply(arrivals, grouped.init(), view_of())
    assert [u.client_id for u in outcome.updates] == ["c"]
    assert [(n.kind, n.client_id) for n in outcome.notes] == [("dropped", "a"), ("dropped", "b")]


def test_as_a_setting_of_convert():
    assert type(us.Convert(group_size=3).composed).__name__ == "InGroups"
    assert type(us.Convert().composed).__name__ == "SwitchBack"
    assert us.method("convert", group_size=10).compensator.composed.size == 10
    for wrong in (-1, 1.5, True):
        with pytest.raises(ConfigError, match="group_size"):
            us.Convert(group_size=wrong)
    with pytest.raises(ConfigError, match="in_groups: `size`"):
        in_groups(us.Memory(), 0)
    with pytest.raises(ConfigError, match="in_groups: `inner`"):
        in_groups("convert", 2)
