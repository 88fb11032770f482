"""`memory` against MIFA's formula, and the limits on what it keeps."""

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError

CLIENTS = "abc"


def three(*values):
    return {"w": torch.tensor(values, dtype=torch.float64)}


def update(client, base, *values, examples=10):
    return us.Update(client, base, three(*values), examples)


def first_state(method, version=0, params=(1.0, 1.0, 1.0)):
    parts = (method.compensator.init(), method.aggregator.init())
    return us.ServerState(version, three(*params), *parts)


def step(method, state, arrivals, absent):
    return us.step(
        state,
        arrivals,
        method=method,
        local=us.LocalSpec(),
        history={}.get,
        rng=torch.Generator().manual_seed(0),
        absent=absent,
    )


def stood_in(result):
    return {u.client_id: u for u in result.report.updates if u.stand_in}


# Who answers in each round, from which version; the others are absent. All do in the first, as
# MIFA asks. Client c is late: its answer in round 4 is for version 1.
SCHEDULE = [
    {"a": 0, "b": 0, "c": 0},
    {"a": 1},
    {"b": 2},
    {},
    {"a": 4, "c": 1},
    {"a": 5, "b": 5, "c": 5},
    {"b": 6},
]


def sent(client, base):
    """Return what a client sends from a version: small whole numbers, all different."""
    number = ord(client) - ord("a")
    return [float(7 * number - 5 * base), float(3 * base + number), float(number - 2 * base * base)]


def test_it_is_mifa_where_all_clients_take_part_in_every_round():
    method = us.method("memory")
    state = first_state(method)
    weights, latest = [1.0, 1.0, 1.0], {}
    for now, answers in enumerate(SCHEDULE):
        absent = [client for client in CLIENTS if client not in answers]
        arrivals = [update(c, base, *sent(c, base)) for c, base in answers.items()]
        result = step(method, state, arrivals, absent)
        # By hand: the newest answer of every client, and the mean over all N = 3 of them.
        latest |= {c: sent(c, base) for c, base in answers.items()}
        weights = [w + sum(g[i] for g in latest.values()) / 3 for i, w in enumerate(weights)]
        assert result.state.params["w"].tolist() == pytest.approx(weights, rel=1e-13)
        assert sorted(stood_in(result)) == absent
        assert result.report.version == now + 1
        state = result.state


def test_a_used_update_is_as_it_was_sent():
    method = us.method("memory")
    first = step(method, first_state(method, 4), [update("a", 3, 1.0, 2.0, 3.0, examples=7)], [])
    result = step(method, first.state, [], ["a"])
    again = stood_in(result)["a"]
    assert again.delta["w"].tolist() == [1.0, 2.0, 3.0]
    assert (again.base_version, again.num_examples, again.weight) == (5, 7, 1.0)
    (note,) = result.report.notes
    assert (note.kind, note.client_id, note.base_version) == ("stood_in", "a", 5)
    assert note.detail == {"age": 2, "weight": 1.0}
    # The mean of one update is that update, once more.
    assert result.state.params["w"].tolist() == [3.0, 5.0, 7.0]


def test_a_late_answer_of_an_earlier_version_counts_but_is_not_kept():
    method = us.method("memory")
    state = step(method, first_state(method, 6), [update("a", 5, 1.0, 0.0, 0.0)], []).state
    late = step(method, state, [update("a", 2, 8.0, 0.0, 0.0)], ["a"])
    assert stood_in(late) == {}
    assert late.state.params["w"].tolist() == [1.0 + 1.0 + 8.0, 1.0, 1.0]
    after = stood_in(step(method, late.state, [], ["a"]))["a"]
    assert after.delta["w"].tolist() == [1.0, 0.0, 0.0]


def test_of_two_answers_in_a_round_the_newer_is_kept():
    method = us.method("memory")
    both = [update("a", 3, 3.0, 0.0, 0.0), update("a", 2, 2.0, 0.0, 0.0)]
    for arrivals in (both, both[::-1]):
        state = step(method, first_state(method, 5), arrivals, []).state
        assert stood_in(step(method, state, [], ["a"]))["a"].delta["w"].tolist() == [3.0, 0.0, 0.0]


def test_max_age_counts_from_the_version_it_was_trained_from():
    method = us.method("memory", max_age=2)
    state = step(method, first_state(method, 4), [update("a", 3, 1.0, 0.0, 0.0)], []).state
    used = []
    for _ in range(3):  # versions 5, 6 and 7: ages 2, 3 and 4
        used.append(method.compensator.stands_in_for(state.compensator, state.version))
        result = step(method, state, [], ["a"])
        assert set(stood_in(result)) == used[-1]
        assert result.report.changed == bool(used[-1])
        state = result.state
    assert used == [{"a"}, set(), set()]
    endless = us.method("memory")
    state = first_state(endless)
    state = step(endless, state, [update("a", 0, 1.0, 0.0, 0.0)], []).state
    for _ in range(50):
        state = step(endless, state, [], ["a"]).state
    assert state.params["w"].tolist() == [52.0, 1.0, 1.0]


def test_only_the_clients_that_answered_last_are_kept():
    method = us.method("memory", max_clients=2)
    state = first_state(method)
    for client in "cab":
        arrivals = [update(client, state.version, 1.0, 0.0, 0.0)]
        state = step(method, state, arrivals, []).state
    assert list(state.compensator["clients"]) == ["a", "b"]
    assert sorted(stood_in(step(method, state, [], ["a", "b", "c"]))) == ["a", "b"]
    # What counts is when it answered, not from which version.
    late = step(method, state, [update("c", 1, 1.0, 0.0, 0.0)], []).state
    assert list(late.compensator["clients"]) == ["b", "c"]
    # In one round, by name.
    crowd = [update(client, 3, 1.0, 0.0, 0.0) for client in "zyx"]
    assert list(step(method, state, crowd, []).state.compensator["clients"]) == ["x", "y"]


def test_being_stood_in_for_does_not_make_a_client_more_recent():
    method = us.method("memory", max_clients=1)
    state = step(method, first_state(method), [update("a", 0, 1.0, 0.0, 0.0)], []).state
    state = step(method, state, [], ["a"]).state
    assert state.compensator["clients"]["a"]["seen"] == 0
    state = step(method, state, [update("b", 2, 1.0, 0.0, 0.0)], ["a"]).state
    assert list(state.compensator["clients"]) == ["b"]


def test_what_another_part_made_up_is_not_remembered():
    inner, outer = us.Memory(), us.Memory(max_age=1)
    method = us.Method(us.chain(inner, outer))
    state = step(method, first_state(method), [update("a", 0, 1.0, 0.0, 0.0)], []).state
    for _ in range(3):
        result = step(method, state, [], ["a"])
        assert [u.client_id for u in result.report.updates] == ["a"], "once, by the first part"
        state = result.state
    assert [part["clients"]["a"]["version"] for part in state.compensator["parts"]] == [0, 0]


@pytest.mark.parametrize("name", ["max_age", "max_clients"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5"])
def test_limits_are_counts(name, value):
    with pytest.raises(ConfigError, match=f"memory: `{name}` should be a positive integer"):
        us.method("memory", **{name: value})


def test_max_clients_has_to_be_given():
    with pytest.raises(ConfigError, match="max_clients"):
        us.Memory(max_clients=None)
