"""W-Pred: the predicted move by hand, and what it does where there is nothing to predict from."""

import pytest

import unstale as us
from unstale.methods.first_order import taylor
from unstale.methods.prediction import predict_move
from unstale.params import add, subtract


def test_without_correction_the_last_step_goes_on(three):
    base, before = three(3.0, 0.0, 1.0), three(2.0, 0.5, 1.0)
    move = predict_move(base, before, rounds=4, lam=0.0)
    assert move["w"].tolist() == [4.0, -2.0, 0.0]


def test_predicted_move_by_hand(three):
    base, before = three(1.0, -1.0, 0.0), three(0.0, 0.0, 0.0)
    # d = (1, −1, 0), λ = 1/4; ŵ' = ŵ + d − λ·d²·(ŵ − before), with before = 0:
    # 1 → 1 + 1 − 1/4 = 1.75 → 1.75 + 1 − .4375 = 2.3125, and its mirror image.
    move = predict_move(base, before, rounds=2, lam=0.25)
    assert move["w"].tolist() == [1.3125, -1.3125, 0.0]


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 7, 40, 100])
@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0, 7.0])
def test_the_closed_form_is_the_recursion_of_the_derivation(three, rounds, lam):
    """ŵ' = ŵ + taylor(d, ŵ − before), step by step, with the same `taylor` as `first_order`."""
    base, before = three(1.0, -0.4, 0.9), three(0.5, -0.5, 1.0)
    last, predicted = subtract(base, before), base
    for _ in range(rounds):
        predicted = add(predicted, taylor(last, subtract(predicted, before), lam))
    found = predict_move(base, before, rounds, lam)["w"]
    assert found.tolist() == pytest.approx(subtract(predicted, base)["w"].tolist(), rel=1e-12)


def test_the_prediction_settles_where_a_newton_step_of_the_approximation_would(three):
    """With |1 − λd²| < 1 the geometric sum ends at 1/(λd²): ŵ − before → 1/(λd)."""
    base, before = three(0.5, -1.0, 1.25), three(0.0, 0.0, 0.0)
    move = predict_move(base, before, rounds=10_000, lam=1.0)["w"]
    wanted = [1 / 0.5 - 0.5, -1 / 1.0 + 1.0, 1 / 1.25 - 1.25]
    assert move.tolist() == pytest.approx(wanted, abs=1e-12)


def test_formula_on_three_entries(view, three, late):
    past = {2: three(0.0, 0.0, 0.0), 3: three(1.0, -1.0, 0.0)}
    # At version 5 (τ = 2) the true weights are far away, and W-Pred does not look at them.
    here = view(5, three(100.0, 100.0, 100.0), past)
    outcome = us.PredictedMove(lam=0.25).apply([late(2.0, 4.0, 7.0)], {}, here)
    # Δ − λ·Δ²·move: 2 − .25·4·1.3125,  4 − .25·16·(−1.3125),  7 − 0
    assert outcome.updates[0].delta["w"].tolist() == [0.6875, 9.25, 7.0]
    assert [n.kind for n in outcome.notes] == ["compensated"]


def test_equals_first_order_where_the_model_moves_as_predicted(view, three, late):
    """With λ so small that the model goes straight on, prediction and truth agree."""
    past = {2: three(0.0, 0.0, 0.0), 3: three(1.0, 2.0, -1.0)}
    here = view(5, three(3.0, 6.0, -3.0), past)
    update = late(1.0, 2.0, 3.0)
    lam = 1e-9
    found = us.PredictedMove(lam).apply([update], {}, here).updates[0].delta["w"]
    wanted = us.FirstOrder(lam).apply([update], {}, here).updates[0].delta["w"]
    assert (found - wanted).abs().max() < 1e-15


def test_version_zero_has_no_step_before_it(view, three):
    update = us.Update("a", 0, three(1.0, 2.0, 3.0), 10)
    here = view(5, three(9, 9, 9), {0: three(0, 0, 0)})
    outcome = us.PredictedMove(fallback="drop").apply([update], {}, here)
    assert outcome.updates == (update,)
    assert "version 0" in outcome.notes[0].detail["reason"]


@pytest.mark.parametrize("gone", [2, 3])
@pytest.mark.parametrize(("fallback", "kept"), [("keep", 1), ("drop", 0)])
def test_needs_the_base_and_the_version_before(view, three, late, gone, fallback, kept):
    past = {2: three(0, 0, 0), 3: three(1, 1, 1)}
    del past[gone]
    update = late(1.0, 2.0, 3.0)
    outcome = us.PredictedMove(fallback=fallback).apply([update], {}, view(5, three(2, 2, 2), past))
    assert outcome.updates == (update,) * kept
    assert outcome.notes[0].kind == "fallback"


def test_a_server_keeps_the_version_before_for_it(three):
    assert us.PredictedMove().lookback == 1
    assert us.chain(us.Drop(5), us.PredictedMove(), us.FirstOrder()).lookback == 1
