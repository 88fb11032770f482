"""Fast clients as probes: what their next updates teach, when, and at what cost."""

import dataclasses

import pytest
import torch
from late_world import changed, converting
from pretending import LEARNING, PLAIN, Pretended, exact, worthless
from standing import kinds, same

import unstale as us
from unstale.executors import WorkerError
from unstale.inversion.convert import with_residual
from unstale.methods.conversion import convert_all
from unstale.methods.conversion.probe_choice import chosen, is_due, reach_of, seen_with
from unstale.params import cosine_distance

FAST = ("f", "g", "h", "k", "m")


def rounds(method, pretended, arrivals, world, state=None):
    """Apply a method to fresh updates of `FAST` in each version, and late ones as they arrive."""
    state, outcomes = method.init() if state is None else state, {}
    for now in range(13):
        late = [pretended.update(c, b) for c, b in arrivals.get(now, ())]
        fresh = [pretended.update(c, now) for c in FAST]
        outcomes[now] = method.apply([*fresh, *late], state, world.view(now))
        state = outcomes[now].state
    return outcomes


def told(outcomes, kind):
    return {now: [n for n in o.notes if n.kind == kind] for now, o in outcomes.items()}


@pytest.fixture
def pretended(monkeypatch, world):
    return Pretended(monkeypatch, world, exact)


# --- what is learned ---------------------------------------------------------------------


def test_estimates_that_are_right_are_trusted(world, pretended):
    outcomes = rounds(PLAIN, pretended, {9: [("s", 1)], 12: [("t", 3)]}, world)
    before = [n for now, notes in told(outcomes, "calibrated").items() if now < 9 for n in notes]
    assert len(before) > 6, "before the first stale update arrives"
    for note in before:
        assert note.detail["error"] == pytest.approx(0, abs=1e-6)
        assert note.detail["share"] == pytest.approx(1, abs=1e-5)
        assert note.detail["stale_error"] > note.detail["error"]
        assert note.detail["lag"] >= 1
        assert note.detail["late"] is False
    for now, client, base in ((9, "s", 1), (12, "t", 3)):
        (note,) = told(outcomes, "converted")[now]
        assert note.detail["share"] > 0.8
        assert note.detail["norm_share"] > 0.8
        used = {u.client_id: u for u in outcomes[now].updates}[client]
        stale = world.error(world.update(client, base), now)
        assert world.error(used, now) < 0.1 * stale


def test_worthless_estimates_are_not_used(monkeypatch, world):
    pretended = Pretended(monkeypatch, world, worthless)
    outcomes = rounds(PLAIN, pretended, {9: [("s", 1)], 12: [("t", 3)]}, world)
    for now, client, base in ((9, "s", 1), (12, "t", 3)):
        (note,) = told(outcomes, "converted")[now]
        assert note.detail["share"] < 0.1
        used = {u.client_id: u for u in outcomes[now].updates}[client]
        stale = world.error(world.update(client, base), now)
        assert world.error(used, now) <= 1.05 * stale
    plain = changed(PLAIN, calibration=us.Calibration(enabled=False))
    harmed = rounds(plain, pretended, {9: [("s", 1)]}, world)[9]
    used = {u.client_id: u for u in harmed.updates}["s"]
    assert world.error(used, 9) > 3 * world.error(world.update("s", 1), 9), "it would have hurt"


def test_the_estimate_is_the_conversion_of_the_probe(world):
    """With real fits: the pair is that of `us.convert` from the one update to the other."""
    method = converting(
        iterations=6, max_loss=10.0, history=1, calibration=us.Calibration(probes=1)
    )
    state = method.apply([world.update("f", 1)], method.init(), world.view(1)).state
    fitted = method.apply([world.update("f", 2)], state, world.view(2))
    assert kinds(fitted) == ["probed"]
    outcome = method.apply([world.update("f", 5)], fitted.state, world.view(5))
    (note,) = outcome.notes
    probe = fitted.state["calibration"]["probes"]["f"]
    stale, truth = world.update("f", 2), world.update("f", 5)
    surrogate = us.Surrogate(probe["surrogates"][""]["x"], probe["surrogates"][""]["y_logits"])
    recipe = method.inversion.local_for(world.view(5).local, 12)
    then, today = (
        us.local_update(world.model, world.weights[v], surrogate.x, surrogate.labels, recipe)
        for v in (2, 5)
    )
    estimate = with_residual(today, then, stale.delta)
    assert note.detail["lag"] == 3
    assert note.detail["error"] == pytest.approx(cosine_distance(estimate, truth.delta), abs=1e-7)
    assert note.detail["stale_error"] == pytest.approx(
        cosine_distance(stale.delta, truth.delta), abs=1e-7
    )


# --- when, and at what cost ---------------------------------------------------------------


def test_fresh_updates_pass_and_only_those_that_return_are_probes(world, pretended):
    state = PLAIN.init()
    first = PLAIN.apply([pretended.update("f", 1)], state, world.view(1))
    assert pretended.asked == [], "it may never come back"
    again = [pretended.update("f", 2), pretended.update("g", 2)]
    outcome = PLAIN.apply(again, first.state, world.view(2))
    assert pretended.asked == [["f"]]
    assert all(one is other for one, other in zip(outcome.updates, again, strict=True))
    assert list(outcome.state["calibration"]["probes"]) == ["f"]


def test_the_cost_is_bounded(world, pretended):
    settings = us.Calibration(renew=2, probes=3, cost=0.5)  # as often as it may
    late = {now: [("s", now - 2), ("t", now - 3)] for now in range(8, 13)}
    method = changed(PLAIN, calibration=settings)
    outcomes = rounds(method, pretended, late, world)
    made = conversions = 0
    for outcome in outcomes.values():
        made += kinds(outcome).count("probed")
        assert made <= 3 + 0.5 * conversions, "what is converted now counts from the next round on"
        conversions += kinds(outcome).count("converted")
        book = outcome.state["calibration"]
        assert (book["fits"], book["conversions"]) == (made, conversions)
        assert len(book["probes"]) <= 3
    assert made > 3, "it is used"
    none = rounds(changed(PLAIN, calibration=us.Calibration(cost=0.0)), pretended, late, world)
    assert sum(kinds(o).count("probed") for o in none.values()) <= 4
    off = rounds(changed(PLAIN, calibration=us.Calibration(probes=0)), pretended, late, world)
    assert {kind for o in off.values() for kind in kinds(o)} <= {"converted", "calibrated"}
    assert all(n.detail["late"] for notes in told(off, "calibrated").values() for n in notes)


def test_first_fits_are_spread(world, pretended):
    outcomes = rounds(PLAIN, pretended, {}, world)  # pauses of 1, 2 and 4 versions
    found = [now for now, notes in told(outcomes, "probed").items() for _ in notes]
    assert found == [1, 1, 3, 7]


def test_a_probe_is_compared_at_growing_lags():
    probe = {"lag": 0}
    lags = []
    for lag in range(1, 60):
        if is_due(probe, lag, reach=1000.0):
            lags.append(lag)
            probe = {"lag": lag}
    assert lags == [1, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30, 38, 48]
    assert is_due({"lag": 9}, 10, reach=10.0), "the last one before it is fitted anew"


def test_how_long_a_probe_serves():
    settings = us.Calibration(renew=30)
    book = {"staleness": [], "conversions": 99, "fits": 4, "heard": 0, "seen": {}}
    assert reach_of(book, settings) == 30
    assert reach_of({**book, "staleness": [10, 20, 5]}, settings) == 24

    def probe(version):
        return {"sent": [{"version": version}], "surrogates": {}}

    probes = {"f": probe(0), "g": probe(20), "h": probe(6), "k": probe(0)}
    book |= {"probes": probes, "staleness": [20], "heard": 30}
    fresh = dict.fromkeys(("f", "g", "h"))
    assert list(chosen(book, fresh, 30, 24, settings)) == ["f", "h"], "the oldest first"
    assert list(chosen(book, fresh, 29, 24, settings)) == ["f"]
    assert list(chosen({**book, "conversions": 0}, fresh, 30, 24, settings)) == []
    assert list(chosen({**book, "conversions": 4}, fresh, 30, 24, settings)) == ["f"]
    late = {**book, "heard": 200}
    assert list(chosen(late, fresh, 261, 24, settings)) == [], "nothing stale for long"
    assert list(chosen(late, fresh, 259, 24, settings)) != []


def test_who_may_come_back_is_bounded():
    many = dict.fromkeys(f"c{i}" for i in range(200))
    found = seen_with({"old": 3}, many, 7)
    assert len(found) == 64
    assert "old" not in found
    assert found == seen_with({"old": 3}, dict(reversed(many.items())), 7)
    assert seen_with({"old": 3}, {"new": None}, 7) == {"new": 7, "old": 3}


def test_a_probe_that_left_makes_room(world, pretended):
    method = changed(PLAIN, calibration=us.Calibration(probes=1, renew=2))
    state = method.init()
    for now in (1, 2):
        state = method.apply([pretended.update("f", now)], state, world.view(now)).state
    for now in range(3, 9):
        state = method.apply([pretended.update("g", now)], state, world.view(now)).state
    assert list(state["calibration"]["probes"]) == [], "its start-up fit is spent"
    assert state["calibration"]["fits"] == 1


# --- beside the rest ----------------------------------------------------------------------


def test_its_past_and_its_last_surrogate_are_used_as_those_of_slow_clients(world, monkeypatch):
    seen, of_f = [], {}
    fit_parallel = convert_all.fit_parallel

    def spy(requests, *rest):
        seen.extend((len(r.past), r.warm is not None) for r in requests if id(r.delta) in of_f)
        return fit_parallel(requests, *rest)

    monkeypatch.setattr(convert_all, "fit_parallel", spy)
    method = converting(
        iterations=3, warm_iterations=2, max_loss=10.0, history=3,
        calibration=us.Calibration(probes=1, renew=2, cost=9.0),
    )  # fmt: skip
    state = {**method.init(), "calibration": None}
    for now in range(1, 12):
        late = [world.update("s", now - 1)] if now % 3 == 0 else []
        fresh = world.update("f", now)
        of_f[id(fresh.delta)] = fresh  # kept, so that no other has its id
        state = method.apply([fresh, *late], state, world.view(now)).state
    assert seen[:4] == [(0, False), (1, True), (2, True), (2, True)]
    book = state["calibration"]
    assert [s["version"] for s in book["probes"]["f"]["sent"]] == [
        int(version) for version in book["bases"]
    ]
    assert len(book["bases"]) == 2
    assert "f" not in method.surrogates(state), "nobody stands in for a fast client"
    assert "f" not in method.stands_in_for(state, 12)


def test_the_order_of_arrivals_makes_no_difference(world):
    method = converting(iterations=3, max_loss=10.0, history=2, calibration=LEARNING)
    states, outcomes = [method.init(), method.init()], [None, None]
    for now in range(1, 9):
        updates = [world.update(c, now) for c in FAST]
        updates += [world.update("s", now - 3), world.update("t", now - 2)] if now > 4 else []
        for i, order in enumerate((updates, list(reversed(updates)))):
            outcomes[i] = method.apply(order, states[i], world.view(now))
            states[i] = outcomes[i].state
    one, other = (s["calibration"] for s in states)
    assert one["pairs"] == other["pairs"]
    assert one["pairs"]["s"]
    assert list(one["probes"]) == list(other["probes"])
    used = [{u.key: u.delta for u in o.updates} for o in outcomes]
    assert all(same(dict(used[0][key]), dict(used[1][key])) for key in used[0])


def test_nothing_is_probed_without_a_model_or_with_dead_workers(world, pretended, monkeypatch):
    state = PLAIN.apply([pretended.update("f", 1)], PLAIN.init(), world.view(1)).state
    view = world.view(2, model=None)
    assert PLAIN.apply([pretended.update("f", 2)], state, view).notes == ()

    def dies(*_):
        raise WorkerError("the workers died")

    monkeypatch.setattr(convert_all, "fit_parallel", dies)
    outcome = PLAIN.apply([pretended.update("f", 2)], state, world.view(2))
    assert outcome.notes == ()
    assert outcome.state["calibration"]["probes"] == {}
    assert outcome.state["calibration"]["fits"] == 0


@pytest.mark.parametrize("size", [0.0, 1e30, 1e-30])
def test_absurd_updates_teach_nothing(world, pretended, size):
    state = PLAIN.init()
    for now in (1, 2):
        state = PLAIN.apply([pretended.update("f", now)], state, world.view(now)).state
    truth = pretended.update("f", 5)
    bad = dataclasses.replace(truth, delta={n: size * d for n, d in truth.delta.items()})
    outcome = PLAIN.apply([bad], state, world.view(5))
    assert kinds(outcome) == []
    assert outcome.updates[0] is bad
    assert outcome.state["calibration"]["pairs"] == {}


def test_candidates_are_tried_and_the_best_one_converts(world, monkeypatch):
    """The plain inversion finds noise here, the candidate the truth."""
    settings = us.Calibration(renew=10, candidates=("gaussian",))
    method = changed(PLAIN, calibration=settings)
    pretended = Pretended(monkeypatch, world, exact)
    asked, fit = [], convert_all.fit_parallel

    def by_start(requests, model, inputs, inversion, *rest):
        asked.append((inversion.start, len(requests)))
        fits = fit(requests)
        if inversion.start == "gaussian":
            return fits
        return [
            dataclasses.replace(
                f, surrogate=us.Surrogate(f.surrogate.x + 0.5, f.surrogate.y_logits)
            )
            for f in fits
        ]

    change = pretended._change

    def by_surrogate(surrogate, weights):
        found = change(surrogate, weights)
        odd = float(surrogate.x.flatten()[0]) % 1 > 0
        return worthless("x", 0, found) if odd else found

    monkeypatch.setattr(convert_all, "fit_parallel", by_start)
    pretended._change = by_surrogate
    outcomes = rounds(method, pretended, {9: [("s", 1)]}, world)
    assert {n.detail.get("by", "") for n in told(outcomes, "probed")[1]} == {"", "gaussian"}
    (note,) = told(outcomes, "converted")[9]
    assert ("gaussian", 1) in asked
    assert note.detail["share"] > 0.8
    assert note.detail["by"] == "gaussian"
    used = {u.client_id: u for u in outcomes[9].updates}["s"]
    assert world.error(used, 9) < 0.1 * world.error(world.update("s", 1), 9)
    assert torch.isfinite(used.delta["0.weight"]).all()
