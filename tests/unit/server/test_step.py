"""The step: what moves the weights, in which order, and what the report says of it."""

import json
import math
from dataclasses import dataclass

import pytest
import torch

import unstale as us
from unstale.methods import Stateless, per_update
from unstale.server.step import initial_state


def three(*values):
    return {"w": torch.tensor(values, dtype=torch.float64)}


def update(client, base, *values, examples=10, weight=1.0):
    return us.Update(client, base, three(*values), examples, weight)


def run(arrivals, method="unweighted", version=5, params=None, past=None):
    method = us.method(method) if isinstance(method, str) else method
    params = three(1.0, 1.0, 1.0) if params is None else params
    state = us.ServerState(version, params, method.compensator.init(), method.aggregator.init())
    return us.step(
        state,
        arrivals,
        method=method,
        local=us.LocalSpec(),
        history=(past or {}).get,
        rng=torch.Generator().manual_seed(0),
    )


@dataclass(frozen=True, slots=True)
class Multiply(Stateless):
    """Multiplies stale updates by a number, NaN perhaps."""

    factor: float

    def apply(self, updates, state, view):
        def treat(u, view):
            delta = {n: p * self.factor for n, p in u.delta.items()}
            return us.Update(u.client_id, u.base_version, delta, u.num_examples, u.weight), None

        return per_update(updates, state, view, treat)


def test_a_stale_delta_is_added_to_the_current_weights():
    """Deltas are averaged, each against its own base; no whole stale model is mixed in.

    The client went from its base (7, 7, 7) to (8, 5, 7). A server that averaged models would
    move to the client's weights; one that subtracted the current weights (1, 1, 1) instead of
    the base's would add (7, 4, 6).
    """
    base = three(7.0, 7.0, 7.0)
    delta = update("a", 2, 1.0, -2.0, 0.0)
    assert run([delta], past={2: base}).state.params["w"].tolist() == [2.0, -1.0, 1.0]


def test_weights_of_one_round_do_not_reach_the_next():
    method = us.method("polynomial", a=0.5)
    arrivals = [update("fast", 5, 8.0, 8.0, 8.0), update("slow", 2, 0.0, 0.0, 0.0)]
    first = run(arrivals, method)  # 8 · 1/(1 + 1/2)
    again = us.step(
        us.ServerState(5, three(1.0, 1.0, 1.0), first.state.compensator, first.state.aggregator),
        arrivals,
        method=method,
        local=us.LocalSpec(),
        history={}.get,
        rng=torch.Generator(),
    )
    assert first.state.params["w"].tolist() == pytest.approx([1 + 16 / 3] * 3)
    assert torch.equal(first.state.params["w"], again.state.params["w"])


def test_the_step_leaves_its_input_alone():
    params = three(1.0, 2.0, 3.0)
    run([update("a", 5, 1.0, 1.0, 1.0)], params=params)
    assert params["w"].tolist() == [1.0, 2.0, 3.0]


def test_initial_state_is_version_zero_with_the_parts_memories():
    state = initial_state(three(1, 2, 3), us.method("asyn_tiers"))
    assert (state.version, state.compensator) == (0, {})
    assert state.aggregator == {"rounds": [0, 0]}


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_compensation_that_is_not_finite_gives_way_to_the_update_as_it_came(factor):
    method = us.Method(us.chain(us.PolynomialWeight(a=0.5), Multiply(factor)))
    arrivals = [update("fast", 5, 8.0, 8.0, 8.0), update("slow", 2, 2.0, 2.0, 2.0)]
    result = run(arrivals, method)
    # The slow one as it came, with the weight 1/√4 that was not at fault: (8 + 2/2) / 1.5
    assert result.state.params["w"].tolist() == pytest.approx([7.0, 7.0, 7.0])
    (note,) = [n for n in result.report.notes if n.kind == "fallback"]
    assert (note.client_id, note.detail["did"]) == ("slow", "keep")


def test_a_result_that_is_not_finite_is_discarded():
    big = torch.finfo(torch.float64).max
    result = run([update("a", 5, big, 0.0, 0.0)], params=three(big, 0.0, 0.0))
    assert result.state.params["w"].tolist() == [big, 0.0, 0.0]
    assert (result.state.version, result.report.changed) == (6, False)
    assert result.report.count("discarded") == 1


def test_updates_of_no_weight_leave_the_weights():
    result = run([update("a", 5, 1.0, 1.0, 1.0, weight=0.0)])
    assert result.state.params["w"].tolist() == [1.0, 1.0, 1.0]
    assert not result.report.changed


def test_the_reports_line_is_json_and_counts():
    arrivals = [update("a", 5, 1.0, 1.0, 1.0), update("b", 2, 1, 1, 1), update("c", 2, 1, 1, 1)]
    report = run(arrivals, "drop").report
    line = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (line["version"], line["arrivals"], line["stale"], line["changed"]) == (6, 3, 2, True)
    assert line["staleness"] == {"mean": 2.0, "max": 3, "counts": {"0": 1, "3": 2}}
    assert line["notes"] == {"dropped": 2}
    assert line["conversions"] == 0
    assert line["seconds"] >= 0


def test_an_empty_rounds_line_has_no_numbers_made_up():
    line = json.loads(json.dumps(run([]).report.to_json(), allow_nan=False))
    assert line["staleness"] == {"mean": None, "max": None, "counts": {}}
    assert (line["arrivals"], line["changed"]) == (0, False)


@dataclass(frozen=True, slots=True)
class Tell(Stateless):
    """Leaves updates as they are and tells what it is given to tell."""

    notes: tuple

    def apply(self, updates, state, view):
        return us.Outcome(tuple(updates), state, self.notes)


def test_conversions_are_told_in_full():
    curve = ((1, 0.987654321), (25, math.inf))
    seconds = {"seconds": 1.5}
    notes = (
        us.Note("converted", "a", 2, {"loss": 0.0123456789, "iterations": 25, "start": "warm"}),
        us.Note(
            "converted", "b", 1,
            {"loss": math.nan, "iterations": 9, "start": "cold", "curve": curve, **seconds},
        ),
        us.Note("fallback", "c", 1, {"did": "keep", "reason": "why", "iterations": 3, **seconds}),
        us.Note("switched", "d", 3, {"gamma": 0.25}),
        us.Note("measured", "d", 3, {"version": 4, "estimate_error": 0.2, "stale_error": 0.1,
                                     "estimate_l1": 0.6, "stale_l1": 0.5}),
    )  # fmt: skip
    report = run([update("a", 5, 1, 1, 1)], us.Method(Tell(notes))).report
    line = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert line["converted"] == [
        {"client": "a", "base_version": 2, "loss": 0.012346, "iterations": 25, "start": "warm"},
        {"client": "b", "base_version": 1, "loss": None, "iterations": 9, "start": "cold",
         "curve": [[1, 0.98765], [25, None]]},
    ]  # fmt: skip
    assert line["fallbacks"] == [{"client": "c", "reason": "why"}]
    assert line["gamma"] == {"d": 0.25}
    assert line["measured"] == [
        {"client": "d", "version": 4, "e1": 0.2, "e2": 0.1, "e1_l1": 0.6, "e2_l1": 0.5}
    ]
    assert line["iterations"] == 37


def test_what_did_not_happen_is_not_told():
    line = run([update("a", 5, 1, 1, 1)]).report.to_json()
    assert not {"converted", "fallbacks", "gamma", "measured"} & set(line)
