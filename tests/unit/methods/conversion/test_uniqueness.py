"""Only updates that hold something special are compensated: by the mean, by the nearest."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from late_world import converting
from torch import nn

import unstale as us
from unstale.errors import ConfigError, UnknownNameError
from unstale.methods import Stateless
from unstale.methods.conversion.prefit import fit_job_of
from unstale.methods.conversion.sketch import SIZE, signed_places
from unstale.methods.conversion.uniqueness_rules import (
    MOST_SKETCHES,
    distances,
    mean_direction,
    nearest_distances,
    sketched_directions,
)
from unstale.params import cosine_distance, scale
from unstale.seeding import generator


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
    """Version 3 with two fresh updates a right angle apart, then version 5."""
    weights = three(0, 0, 0)

    def play(method, stale, kept=(3, 4, 5)):
        state = method.init()
        fresh = updates_at(three, 3, (1, 0, 0), (0, 1, 0))
        state = method.apply(fresh, state, view(3, weights, {3: weights})).state
        now = dataclasses.replace(view(5, weights), kept_versions=frozenset(kept))
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
    now = dataclasses.replace(view(4, weights), kept_versions=frozenset({3, 4}))
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
    now = dataclasses.replace(view(5, weights), kept_versions=frozenset({3, 5}))
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
    with pytest.raises(UnknownNameError, match=r"rule.*Did you mean 'nearest'"):
        us.only_unique(Doubled(), rule="nearst")
    with pytest.raises(ConfigError, match="threshold"):
        us.only_unique(Doubled(), float("nan"), rule="nearest")


# --- the nearest one --------------------------------------------------------------------


@given(vectors, st.tuples(entries, entries, entries))
def test_nearest_is_the_least_distance_and_the_others_mean_stays_the_papers(others, own):
    params = [{"w": torch.tensor(v, dtype=torch.float64)} for v in others]
    mine = {"w": torch.tensor(own, dtype=torch.float64)}
    distance, among = nearest_distances(mine, sketched_directions(params))
    assert distance == pytest.approx(min(cosine_distance(mine, p) for p in params), abs=2e-6)
    pairs = [cosine_distance(a, b) for a in params for b in params]
    assert among == pytest.approx(sum(pairs) / len(params) ** 2, abs=2e-6)


# The nearest of the two is 1 − 1/√2 from their diagonal; half of their mean distance is 1/4.
@pytest.mark.parametrize(
    ("stale", "distance"), [((1, 1, 0), 1 - 0.5**0.5), ((0, 0, 4), 1.0), ((7, 1, 0), 0.0101)]
)
def test_unique_is_far_from_every_one(rounds, stale, distance):
    outcome = rounds(us.only_unique(Doubled(), rule="nearest"), stale)
    if distance > 0.25:
        assert outcome.notes == ()
        assert outcome.updates[0].delta["w"].tolist() == [2 * v for v in stale]
    else:
        (note,) = outcome.notes
        assert (note.kind, note.client_id, note.base_version) == ("kept", "s", 3)
        assert note.detail == pytest.approx({"distance": distance, "threshold": 0.25}, abs=1e-4)
        assert outcome.updates[0].delta["w"].tolist() == list(stale)


def test_thresholds_are_the_rules_own_unless_given(rounds):
    assert us.only_unique(Doubled()).settings.factor == 1.0
    assert us.only_unique(Doubled(), rule="nearest").settings.factor == 0.5
    assert us.only_unique(Doubled(), 0.7, rule="nearest").settings.factor == 0.7
    assert us.only_unique(Doubled(), 0, rule="nearest").settings.factor == 0
    for threshold, kinds in ((None, []), (0.6, ["kept"])):  # 0.293 against 0.5 times it
        outcome = rounds(us.only_unique(Doubled(), threshold, rule="nearest"), (1, 1, 0))
        assert [note.kind for note in outcome.notes] == kinds


@pytest.mark.parametrize("seed", range(5))
def test_what_was_sent_by_another_too_is_at_no_distance(seed):
    """Also where there is one other alone, and so no distance among the others at all."""
    delta = {"w": torch.randn(5000, generator=generator(seed, "delta"))}
    kept = sketched_directions([delta])
    assert nearest_distances(scale(delta, 3.7), kept) == (0.0, 0.0)
    zero = {"w": torch.zeros(5000)}
    assert nearest_distances(zero, kept) == (1.0, 0.0)
    assert nearest_distances(delta, sketched_directions([zero])) == (1.0, 1.0)


def of_class(label, client, entries):
    """What a client sends that holds a class: mostly alike, and as large as chance makes it."""
    shared = torch.randn(entries, generator=generator(0, "class", label))
    own = torch.randn(entries, generator=generator(0, "client", client))
    return {"w": 0.9 * shared + 0.4 * own}


@pytest.mark.parametrize("entries", [200, 6000])  # the vectors themselves; sketches of them
def test_a_class_that_few_hold_is_common_to_the_nearest_alone(view, entries):
    """Of five unstale clients one holds class 1: p = 0.2, where Σp² = 0.68."""
    fresh = [
        us.Update(f"f{i}", 3, of_class(label, f"f{i}", entries), 10)
        for i, label in enumerate((0, 0, 0, 0, 1))
    ]
    late = [us.Update(f"s{c}", 3, of_class(c, f"s{c}", entries), 10) for c in (0, 1, 2)]
    weights = {"w": torch.zeros(entries)}
    kept = {}
    for rule in ("mean", "nearest"):
        method = us.only_unique(Doubled(), rule=rule)
        state = method.apply(fresh, method.init(), view(3, weights)).state
        now = dataclasses.replace(view(5, weights), kept_versions=frozenset({3, 4, 5}))
        kept[rule] = [note.client_id for note in method.apply(late, state, now).notes]
    assert kept == {"mean": ["s0"], "nearest": ["s0", "s1"]}, "s2 is unique to both"
    assert state["sketches"]["3"].shape == (5, min(entries, SIZE))
    assert state["sketches"]["3"].dtype == torch.float32


def test_of_many_unstale_updates_the_first_are_kept(view):
    count = MOST_SKETCHES + 6
    eye = torch.eye(count)
    fresh = [us.Update(f"f{i:02}", 3, {"w": row}, 10) for i, row in enumerate(eye)]
    method = us.only_unique(Doubled(), rule="nearest")
    weights = {"w": torch.zeros(count)}
    state = method.apply(fresh, method.init(), view(3, weights)).state
    assert torch.equal(state["sketches"]["3"], eye[:MOST_SKETCHES])
    now = dataclasses.replace(view(5, weights), kept_versions=frozenset({3, 5}))
    late = [us.Update(f"s{i}", 3, {"w": eye[i]}, 10) for i in (0, 63, 64, 69)]
    notes = method.apply(late, state, now).notes
    assert [note.client_id for note in notes] == ["s0", "s63"], "the others look unique"


def test_sketches_of_versions_that_are_gone_are_forgotten(rounds):
    method = us.only_unique(Doubled(), rule="nearest")
    assert list(rounds(method, (1, 0, 0)).state["sketches"]) == ["3"]
    assert rounds(method, (1, 0, 0), kept=(4, 5)).state["sketches"] == {}


def test_what_the_other_rule_kept_is_not_read(three, view):
    weights = three(0, 0, 0)
    now = dataclasses.replace(view(5, weights), kept_versions=frozenset({3, 5}))
    for before, after in (("mean", "nearest"), ("nearest", "mean")):
        old, new = (us.only_unique(Doubled(), rule=rule) for rule in (before, after))
        fresh = updates_at(three, 3, (1, 0, 0), (0, 1, 0))
        state = old.apply(fresh, old.init(), view(3, weights)).state
        outcome = new.apply([us.Update("s", 3, three(1, 0, 0), 10)], state, now)
        assert outcome.notes == (), "nothing is known of its version"
        assert set(outcome.state) == set(new.init())


def test_by_the_nearest_the_same_is_fitted_as_is_applied(world):
    few = converting(sparsity=0, iterations=2, max_loss=10.0)
    method = us.only_unique(few, rule="nearest")
    fresh = [world.update("f", 3), world.update("g", 3)]
    other = us.Update("h", 3, world.train(world.weights[3], 1, "h"), 12)
    state = method.apply([*fresh, other], method.init(), world.view(3)).state
    common = dataclasses.replace(world.update("k", 3), client_id="c")  # class 0, as f and g
    late = [common, world.update("s", 3), world.update("t", 2)]
    notes = method.apply(late, state, world.view(9)).notes
    assert sorted((n.client_id, n.kind) for n in notes) == [
        ("c", "kept"), ("s", "converted"), ("t", "converted"),
    ]  # fmt: skip
    fitted = [fit_job_of(method, u, state, world.view(9)) is not None for u in late]
    assert fitted == [False, True, True]


def test_sketches_survive_save_and_load_and_decide_as_before(tmp_path):
    model = nn.Linear(60, 50)  # 3050 entries
    method = us.Method(us.only_unique(us.FirstOrder(), rule="nearest"))
    ends = []
    for saved in (False, True):
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        server = us.Server(model, method, seed=0)
        for client in ("a", "b", "c", "d"):
            server.check_out(client)
        for client, label in (("a", 0), ("b", 1)):
            server.submit(us.Update(client, 0, shaped(of_class(label, client, 3050)), 10))
        server.step()
        if saved:
            server.save(tmp_path)
            signed_places.cache_clear()  # as another process would find it
            server = us.Server.load(tmp_path, model)
        for client, label in (("c", 1), ("d", 2)):
            server.submit(us.Update(client, 0, shaped(of_class(label, client, 3050)), 10))
        kept = server.to_tree()[0]["compensator"]["sketches"]["0"]
        ends.append((kept, [(n.kind, n.client_id, n.detail) for n in server.step().notes]))
    (whole, notes), (loaded, again) = ends
    assert whole.shape == (2, SIZE)
    assert torch.equal(whole, loaded)
    assert notes == again
    assert sorted((client, kind) for kind, client, _ in notes) == [
        ("c", "kept"), ("d", "compensated"),
    ]  # fmt: skip


def shaped(delta):
    weight, bias = 1e-3 * delta["w"][:3000], 1e-3 * delta["w"][3000:]
    return {"weight": weight.reshape(50, 60), "bias": bias}
