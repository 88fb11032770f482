"""Only updates that hold something special are compensated: the paper's two formulas."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import unstale as us
from unstale.compensate import Stateless
from unstale.compensate.uniqueness import distances, mean_direction
from unstale.errors import ConfigError
from unstale.params import cosine_distance, scale


@dataclasses.dataclass(frozen=True, slots=True)
class Doubled(Stateless):
    """Compensates visibly: twice the update."""

    def apply(self, updates, state, view):
        changed = [
            u if u.staleness(view.version) == 0
            else dataclasses.replace(u, delta=scale(u.delta, 2.0))
            for u in updates
        ]  # fmt: skip
        return us.Outcome(tuple(changed), {"calls": state.get("calls", 0) + 1})


entries = st.floats(-100, 100, allow_nan=False).map(lambda v: round(v, 3))
vectors = st.lists(st.tuples(entries, entries, entries), min_size=1, max_size=5)


@given(vectors, st.tuples(entries, entries, entries))
def test_the_mean_direction_says_what_the_double_sum_says(others, own):
    params = [{"w": torch.tensor(v, dtype=torch.float64)} for v in others]
    mine = {"w": torch.tensor(own, dtype=torch.float64)}
    distance, among = distances(mine, mean_direction(params))
    n = len(params)
    assert distance == pytest.approx(sum(cosine_distance(mine, p) for p in params) / n, abs=1e-9)
    pairs = [cosine_distance(a, b) for a in params for b in params]
    assert among == pytest.approx(sum(pairs) / n**2, abs=1e-9)


def updates_at(three, version, *vectors):
    return [us.Update(f"f{i}", version, three(*v), 10) for i, v in enumerate(vectors)]


@pytest.fixture
def rounds(three, view):
    """Version 3 with two unstale updates a right angle apart, then version 5."""
    weights = three(0, 0, 0)

    def play(method, stale, kept=(3, 4, 5)):
        state = method.init()
        fresh = updates_at(three, 3, (1, 0, 0), (0, 1, 0))
        state = method.apply(fresh, state, view(3, weights, {3: weights})).state
        now = dataclasses.replace(view(5, weights), kept=frozenset(kept))
        return method.apply([us.Update("s", 3, three(*stale), 10)], state, now)

    return play


# Among the two: (0 + 1 + 1 + 0) / 4 = 1/2. To the diagonal of both: 1 − 1/√2.
@pytest.mark.parametrize(
    ("stale", "distance"), [((1, 1, 0), 1 - 0.5**0.5), ((0, 0, 4), 1.0), ((-1, 0, 0), 1.5)]
)
def test_unique_is_farther_than_they_are_from_each_other(rounds, stale, distance):
    outcome = rounds(us.only_unique(Doubled()), stale)
    if distance > 0.5:
        assert outcome.notes == ()
        assert outcome.updates[0].delta["w"].tolist() == [2 * v for v in stale]
    else:
        (note,) = outcome.notes
        assert (note.kind, note.client_id, note.base_version) == ("kept", "s", 3)
        assert note.detail == pytest.approx({"distance": distance, "threshold": 0.5})
        assert outcome.updates[0].delta["w"].tolist() == list(stale)


def test_equal_is_not_farther(three, view):
    method = us.only_unique(Doubled())
    weights = three(0, 0, 0)
    state = method.apply(updates_at(three, 3, (2, 0, 0)), method.init(), view(3, weights)).state
    now = dataclasses.replace(view(4, weights), kept=frozenset({3, 4}))
    outcome = method.apply([us.Update("s", 3, three(5, 0, 0), 10)], state, now)
    assert outcome.notes[0].detail == {"distance": 0.0, "threshold": 0.0}


@pytest.mark.parametrize(("threshold", "kind"), [(0.5, []), (0.6, ["kept"])])
def test_the_threshold_multiplies(rounds, threshold, kind):
    outcome = rounds(us.only_unique(Doubled(), threshold), (1, 1, 0))  # 0.293 against 0.5
    assert [note.kind for note in outcome.notes] == kind


def test_without_unstale_updates_of_its_version_it_is_as_told(rounds, three, view):
    for unknown, factor in (("convert", 2), ("keep", 1)):
        method = us.only_unique(Doubled(), unknown=unknown)
        late = us.Update("s", 3, three(1, 1, 0), 10)
        outcome = method.apply([late], method.init(), view(5, three(0, 0, 0)))
        assert outcome.updates[0].delta["w"].tolist() == [factor, factor, 0]
        assert [n.kind for n in outcome.notes] == ["kept"] * (2 - factor)


def test_versions_that_are_gone_are_forgotten(rounds):
    method = us.only_unique(Doubled())
    assert list(rounds(method, (1, 1, 0)).state["directions"]) == ["3"]
    outcome = rounds(method, (1, 1, 0), kept=(4, 5))
    assert outcome.state["directions"] == {}
    assert outcome.notes == (), "nothing is known of its version"


def test_only_unstale_updates_are_counted_and_the_inner_one_is_always_called(three, view):
    method = us.only_unique(Doubled())
    weights = three(0, 0, 0)
    now = dataclasses.replace(view(5, weights), kept=frozenset({3, 5}))
    fresh = us.Update("f", 5, three(0, 3, 0), 10)
    late = us.Update("a", 3, three(1, 0, 0), 10)
    outcome = method.apply([late, fresh], method.init(), now)
    assert [u.client_id for u in outcome.updates] == ["a", "f"], "the order of arrival stays"
    assert outcome.state["directions"]["5"].tolist() == [0, 1, 0]
    assert outcome.updates[1] is fresh
    again = method.apply([], outcome.state, now)
    assert again.state["inner"]["calls"] == 2
    assert method.lookback == 0


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match="compensator"):
        us.only_unique(3)
    with pytest.raises(ConfigError, match="threshold"):
        us.only_unique(Doubled(), threshold=-1)
    with pytest.raises(ConfigError, match="unknown"):
        us.only_unique(Doubled(), unknown="guess")
