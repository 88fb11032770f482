"""Past updates: kept for each client, their base weights once for all, used by later fits."""

import dataclasses

import pytest
import torch
from late_world import changed, converting

import unstale as us
from unstale.methods import Convert
from unstale.methods.conversion import convert_all, past_updates
from unstale.methods.conversion.client_memory import latest
from unstale.methods.watching import watched
from unstale.params import scale, zeros_like
from unstale.server.checkpoint import Checkpoints, load_tensors

FEW = converting(iterations=4, warm_iterations=2, max_loss=10.0, history=3)
EMPTY = {"clients": {}, "bases": {}}
WEIGHTS = {version: {"w": torch.full((4,), float(version))} for version in range(10)}


def sent(client, version, **changes):
    delta = {"w": torch.full((4,), 0.1 + version)}
    return dataclasses.replace(us.Update(client, version, delta, 5), **changes)


def known(*pairs):
    """Updates of (client, version), each with the weights of its version."""
    return [(sent(client, version), WEIGHTS[version]) for client, version in pairs]


def versions(state, client):
    return [past["version"] for past in state["clients"][client]["past"]]


def requests_seen(monkeypatch):
    """Note the requests of every round."""
    seen = []
    fit_parallel = convert_all.fit_parallel

    def spy(requests, *rest):
        seen.extend(requests)
        return fit_parallel(requests, *rest)

    monkeypatch.setattr(convert_all, "fit_parallel", spy)
    return seen


# --- the functions -----------------------------------------------------------------------


def test_the_newest_are_remembered_in_the_order_of_versions():
    state = past_updates.remember(EMPTY, known(("a", 1), ("a", 4), ("a", 2)), 2, now=5)
    assert versions(state, "a") == [2, 4]
    assert state["clients"]["a"]["seen"] == 5
    later = past_updates.remember(state, known(("a", 3)), 2, now=6)
    assert versions(later, "a") == [3, 4]
    assert versions(state, "a") == [2, 4], "the state before is not changed"
    assert EMPTY == {"clients": {}, "bases": {}}
    again = past_updates.remember(later, known(("a", 4)), 2, now=7)
    assert versions(again, "a") == [3, 4], "one for each version"


def test_nothing_is_remembered_without_a_history():
    assert past_updates.remember(EMPTY, known(("a", 1)), 0, now=5) == EMPTY


@pytest.mark.parametrize(
    "changes",
    [
        {"stand_in": True},
        {"delta": zeros_like(WEIGHTS[2])},
        {"delta": scale(WEIGHTS[2], 1e30)},
        {"delta": {"w": torch.full((4,), float("nan"))}},
    ],
    ids=["stand-in", "zero", "huge", "nan"],
)
def test_what_no_client_has_sent_or_no_fit_could_use_is_left_out(changes):
    pair = (sent("a", 2, **changes), WEIGHTS[2])
    assert past_updates.remember(EMPTY, [pair], 3, now=5) == EMPTY


def test_two_clients_share_one_copy_of_a_base():
    own, copied = known(("a", 2), ("b", 2)), {"w": WEIGHTS[2]["w"].clone()}
    # The second comes with a copy, as a version that is read from disk does.
    state = past_updates.remember(EMPTY, [own[0], (own[1][0], copied)], 2, now=5)
    assert list(state["bases"]) == ["2"]
    found = [
        past_updates.past_of(state["clients"][c], state["bases"], (), 9, 2)[0][0] for c in "ab"
    ]
    assert found[0]["w"].data_ptr() == found[1]["w"].data_ptr() == WEIGHTS[2]["w"].data_ptr()
    assert "base" not in state["clients"]["a"]["past"][0]


def test_a_base_is_dropped_with_the_last_update_that_began_there():
    state = past_updates.remember(EMPTY, known(("a", 1), ("b", 1), ("b", 2)), 2, now=5)
    state = past_updates.pruned(state, 10)
    assert list(state["bases"]) == ["1", "2"]
    state = past_updates.pruned(past_updates.remember(state, known(("b", 3)), 2, now=6), 10)
    assert list(state["bases"]) == ["1", "2", "3"], "`a` still refers to the first"
    state = past_updates.pruned(past_updates.remember(state, known(("a", 3), ("a", 4)), 2, 7), 10)
    assert list(state["bases"]) == ["2", "3", "4"]
    assert list(past_updates.pruned(state, 1)["clients"]) == ["a"]
    assert list(past_updates.pruned(state, 1)["bases"]) == ["3", "4"], "those of `b` went with it"


def test_past_of_leaves_out_the_one_that_is_converted():
    state = past_updates.remember(EMPTY, known(("a", 1), ("a", 2), ("a", 3)), 3, now=5)

    def found(others, version, depth):
        entry = state["clients"]["a"]
        past = past_updates.past_of(entry, state["bases"], others, version, depth)
        return [int(base["w"][0]) for base, _ in past]

    assert found((), 4, 3) == [1, 2, 3]
    assert found((), 2, 3) == [1, 3]
    assert found(known(("a", 5)), 4, 3) == [2, 3, 5], "one of the same round, the newest last"
    assert found(known(("a", 5)), 4, 0) == []
    assert past_updates.past_of({}, {}, (), 4, 3) == []


def test_clients_with_a_surrogate_are_kept_first():
    clients = {
        "old": {"seen": 1, "x": torch.ones(1)},
        "older": {"seen": 0, "x": torch.ones(1)},
        "new": {"seen": 9, "past": []},
    }
    assert list(latest(clients, 2)) == ["old", "older"]
    assert list(latest(clients, 1)) == ["old"]


# --- in rounds ---------------------------------------------------------------------------


def test_what_was_not_converted_is_remembered_and_used(world, monkeypatch):
    seen = requests_seen(monkeypatch)
    settings = changed(FEW, max_conversions=1)
    s, t = world.update("s", 4), world.update("t", 2)
    state = settings.apply([s, t], settings.init(), world.view(7)).state
    assert (versions(state, "s"), versions(state, "t")) == ([4], [2])
    assert list(settings.surrogates(state)) == ["t"]
    assert settings.stands_in_for(state, 8) == {"t"}
    outcome = settings.apply([world.update("s", 6)], state, world.view(9, absent=("s", "t")))
    assert [n.kind for n in outcome.notes] == ["converted", "stood_in"]
    ((base, delta),) = seen[-1].past
    assert base["0.weight"] is world.weights[4]["0.weight"]
    assert delta["0.weight"] is s.delta["0.weight"]


def test_a_fit_that_failed_or_is_not_trusted_leaves_its_update(world):
    for settings in (changed(FEW, max_loss=1e-9), changed(FEW, max_growth=1e-9)):
        outcome = settings.apply([world.update("s", 4)], settings.init(), world.view(7))
        assert [n.kind for n in outcome.notes] == ["fallback"]
        assert versions(outcome.state, "s") == [4]
        job = settings.fit_job(world.update("s", 6), outcome.state, world.view(8))
        assert len(job.request.past) == 1


def test_only_stale_updates_whose_base_is_known_are_remembered(world):
    updates = [world.update("f", 7), world.update("s", 4), world.update("t", 2)]
    view = world.view(7, history={4: world.weights[4]}.get)
    for state in (FEW.apply(updates, FEW.init(), view).state, FEW.watch(updates, FEW.init(), view)):
        assert list(state["clients"]) == ["s"]
        assert list(state["bases"]) == ["4"]


def test_one_more_in_the_crowd_costs_an_update_and_no_base(world):
    def apply(count):
        updates = [world.update(f"c{i}", 3) for i in range(count)]
        return FEW.apply(updates, FEW.init(), world.view(7)).state

    alone, crowd = apply(1), apply(4)
    assert len(crowd["bases"]) == len(alone["bases"]) == 1
    assert len(crowd["clients"]) == 4
    held = {p.data_ptr() for p in crowd["bases"]["3"].values()}
    assert held == {p.data_ptr() for p in world.weights[3].values()}, "not copied"


COMMON = us.Uniqueness(threshold=1e9)
WRAPPED = {
    "unique": lambda: us.only_unique(FEW, threshold=1e9),
    "convert": lambda: Convert(inversion=FEW.inversion, uniqueness=COMMON),
    "wrapped whole": lambda: us.only_unique(
        Convert(inversion=FEW.inversion, uniqueness=False), threshold=1e9
    ),
    "wrapped switching": lambda: us.only_unique(us.switch_back(FEW), threshold=1e9),
    "wrapped chain": lambda: us.only_unique(us.chain(us.Drop(50), FEW), threshold=1e9),
}


def innermost(state):
    """The state of `ConvertAll` inside any wrappers."""
    while "bases" not in state:
        state = state["parts"][-1] if "parts" in state else state["inner"]
    return state


@pytest.mark.parametrize("name", sorted(WRAPPED))
def test_updates_that_are_not_unique_are_remembered_and_used(world, monkeypatch, name):
    seen = requests_seen(monkeypatch)
    method = WRAPPED[name]()
    # Version 4 had fresh updates, so the slow client's is compared, and is common.
    fresh = [world.update(c, 4) for c in ("f", "g")]
    state = method.apply(fresh, method.init(), world.view(4)).state
    s = world.update("s", 4)
    outcome = method.apply([s], state, world.view(7))
    assert [n.kind for n in outcome.notes] == ["kept"]
    assert outcome.updates == (s,)
    memory = innermost(outcome.state)
    assert versions(memory, "s") == [4]
    assert list(memory["bases"]) == ["4"]
    # Version 6 had none, so its update is converted, together with the common one.
    after = method.apply([world.update("s", 6)], outcome.state, world.view(9))
    assert [n.kind for n in after.notes] == ["converted"]
    ((base, delta),) = seen[-1].past
    assert base["0.weight"] is world.weights[4]["0.weight"]
    assert delta["0.weight"] is s.delta["0.weight"]


def test_one_of_two_in_a_round_helps_the_other_though_it_is_common(world, monkeypatch):
    seen = requests_seen(monkeypatch)
    method = us.only_unique(FEW, threshold=1e9)
    fresh = [world.update(c, 4) for c in ("f", "g")]
    state = method.apply(fresh, method.init(), world.view(4)).state
    outcome = method.apply([world.update("s", 4), world.update("s", 6)], state, world.view(7))
    assert [n.kind for n in outcome.notes] == ["kept", "converted"]
    assert [base["0.weight"] is world.weights[4]["0.weight"] for base, _ in seen[-1].past] == [True]
    assert versions(outcome.state["inner"], "s") == [4, 6]


def test_a_client_that_has_switched_back_is_not_watched(world):
    method = us.switch_back(FEW)
    entry = {"estimates": [], "worse": 2, "switched": 2, "newest": 1}
    state = {**method.init(), "clients": {"s": entry}}
    updates = [world.update("s", 4), world.update("t", 4)]
    assert list(method.watch(updates, state, world.view(7))["inner"]["clients"]) == ["t"]


def test_what_does_not_watch_keeps_its_state(world):
    state = us.only_unique(us.FirstOrder()).init()["inner"]
    assert watched(us.FirstOrder(), [world.update("s", 4)], state, world.view(7)) is state
    assert watched(FEW, [], EMPTY, world.view(7)) is EMPTY
    single = changed(FEW, history=1)
    assert single.watch([world.update("s", 4)], EMPTY, world.view(7)) is EMPTY


# --- saved -------------------------------------------------------------------------------


def test_a_saved_state_has_each_base_once_and_goes_on_to_the_bit(world, tmp_path):
    method = us.switch_back(FEW)
    state = method.init()
    for base, now in ((1, 4), (3, 6)):
        arrivals = [world.update("s", base), world.update("t", base)]
        state = method.apply(arrivals, state, world.view(now)).state
    assert list(state["inner"]["bases"]) == ["1", "3"]
    path = Checkpoints(tmp_path).write(state, {})
    # For each of four parameters: two bases, and of each of two clients two past updates and an
    # estimate. The stale update beside that is one of the past ones. Besides, two surrogates of
    # each client, the newest and the one before.
    assert len(load_tensors(path.with_suffix(".safetensors"))) == 4 * (2 + 2 * (2 + 1)) + 2 * 4
    loaded = Checkpoints(tmp_path).read()[0]
    arrivals = [world.update("s", 7), world.update("t", 6)]
    on, again = (method.apply(arrivals, known, world.view(9)) for known in (state, loaded))
    for one, other in zip(on.updates, again.updates, strict=True):
        assert all(torch.equal(d, other.delta[n]) for n, d in one.delta.items())
    assert list(again.state["inner"]["bases"]) == ["3", "6", "7"]
