import pytest
import torch

from unstale.sim.oracle import deltas, errors, stand_in_error
from unstale.updates import Update


def update(client, base, values, *, stand_in=False):
    return Update(client, base, {"w": torch.tensor(values)}, 1, stand_in=stand_in)


A, B = ("a", 1), ("b", 2)
TRUTH = {A: {"w": torch.tensor([1.0, 0.0])}, B: {"w": torch.tensor([0.0, 2.0])}}


def test_means_over_late_updates_before_and_after():
    came = [update("a", 1, [0.0, 3.0]), update("b", 2, [0.0, 1.0]), update("c", 5, [1.0, 1.0])]
    used = [update("a", 1, [4.0, 0.0]), update("b", 2, [0.0, -1.0]), update("c", 5, [1.0, 1.0])]
    found = errors(TRUTH, deltas(came), used)
    assert found["stale_cosine"] == pytest.approx((1 + 0) / 2)
    assert found["compensated_cosine"] == pytest.approx((0 + 2) / 2)
    # Relative to the truth's size, 1 and 2: (1 + 3) / 1 and 1 / 2; 3 / 1 and 3 / 2.
    assert found["stale_l1"] == pytest.approx((4 + 0.5) / 2)
    assert found["compensated_l1"] == pytest.approx((3 + 1.5) / 2)


def test_one_client_with_two_bases_is_two_updates():
    truth = {A: TRUTH[A], ("a", 2): TRUTH[B]}
    came = [update("a", 1, [1.0, 0.0]), update("a", 2, [1.0, 0.0])]
    assert errors(truth, deltas(came), came)["stale_cosine"] == pytest.approx(0.5)


def test_dropped_updates_are_left_out_of_the_second_figure():
    came = [update("a", 1, [0.0, 3.0]), update("b", 2, [0.0, 1.0])]
    found = errors(TRUTH, deltas(came), [came[1]])
    assert found["stale_cosine"] == pytest.approx(0.5)
    assert found["compensated_cosine"] == pytest.approx(0.0)
    assert found["compensated_l1"] == pytest.approx(0.5)
    dropped = errors(TRUTH, deltas(came), [])
    assert (dropped["compensated_cosine"], dropped["compensated_l1"]) == (None, None)


def test_nothing_late():
    names = ("stale_cosine", "compensated_cosine", "stale_l1", "compensated_l1")
    assert errors({}, {}, [update("c", 5, [1.0, 1.0])]) == dict.fromkeys(names)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_what_cannot_be_measured_is_no_number(bad):
    came = [update("a", 1, [bad, 1.0])]
    found = errors({A: {"w": torch.tensor([bad, 1.0])}}, deltas(came), [])
    assert found["stale_cosine"] in (None, 1.0)  # and never NaN, which no JSON holds
    assert found["stale_l1"] is None


def test_a_truth_of_zero_has_no_relative_error():
    nothing = {A: {"w": torch.zeros(2)}, B: TRUTH[B]}
    came = [update("a", 1, [1.0, 0.0]), update("b", 2, [0.0, 1.0])]
    assert errors(nothing, deltas(came), came)["stale_l1"] == pytest.approx(0.5)


# --- stand-ins ---------------------------------------------------------------------------

MISSED = {"a": TRUTH[A], "b": TRUTH[B]}


def test_the_mean_over_stand_ins_and_over_nothing_else():
    used = [
        update("a", 5, [-4.0, 0.0], stand_in=True),  # the opposite: 2
        update("b", 5, [3.0, 4.0], stand_in=True),  # cosine 4/5
        update("c", 5, [1.0, 1.0]),
    ]
    found = stand_in_error(MISSED, used)
    assert found == {
        "stand_in_cosine": pytest.approx((2 + 0.2) / 2),
        "stand_in_l1": pytest.approx((5 / 1 + (3 + 2) / 2) / 2),
    }


def test_without_stand_ins_there_is_no_figure():
    assert stand_in_error({}, [update("c", 5, [1.0, 1.0])]) == {}
    # An own update, though somebody could say what the client would have sent.
    assert stand_in_error(MISSED, [update("a", 5, [1.0, 1.0])]) == {}


def test_stand_ins_do_not_count_as_late_updates():
    came = [update("a", 1, [0.0, 3.0])]
    made = update("b", 5, [-1.0, 0.0], stand_in=True)
    truth = {A: TRUTH[A]}
    assert errors(truth, deltas(came), [*came, made]) == errors(truth, deltas(came), came)


def test_a_stand_in_that_cannot_be_measured_is_no_number():
    bad = {"a": {"w": torch.tensor([float("nan"), 1.0])}}
    found = stand_in_error(bad, [update("a", 5, [1.0, 0.0], stand_in=True)])
    assert found["stand_in_cosine"] in (None, 1.0)
