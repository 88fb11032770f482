import statistics

import pytest

from unstale.run_folder import Round
from unstale.run_folder.schema import SCHEMA, Checked, Converted, StoodIn
from unstale.run_folder.summary import figures, over_seeds, reference_of, with_savings


def record(round, accuracy, affected, conversions=0, iterations=0):
    return Round(
        round,
        accuracy=accuracy,
        affected_accuracy=affected,
        conversions=conversions,
        iterations=iterations,
    )


def test_windows_by_hand():
    records = [record(r, r / 100, r / 10, 2, 30) for r in range(1, 11)]
    found = figures(records, rounds=10, target=0.65, window=2)
    assert found == {
        "accuracy": pytest.approx((0.09 + 0.10) / 2),  # the last fifth: rounds 9 and 10
        "affected_accuracy": pytest.approx((0.9 + 1.0) / 2),
        "affected_mean": pytest.approx((0.6 + 0.7 + 0.8 + 0.9 + 1.0) / 5),  # rounds 6 to 10
        "held_from": 7,  # the mean of rounds 6 and 7
        "diverged": False,
        "conversions": 20,
        "iterations": 300,
        "stand_ins": 0,
        "stand_in_age": None,
        "stand_in_error": None,
        "stand_in_l1": None,
        "probe_fits": 0,
        "share": None,
    }


def test_calibration_by_hand():
    lines = [
        Round(1, notes={"probed": 4}),
        Round(2, notes={"probed": 1}, converted=(converted(0.5), converted(None))),
        Round(3, converted=(converted(1.0), converted(0.9))),
    ]
    found = figures(lines, rounds=3, target=0.5)
    assert found["probe_fits"] == 5
    assert found["share"] == pytest.approx((0.5 + 1.0 + 0.9) / 3)
    whole = over_seeds({0: found, 1: {**found, "probe_fits": 1, "share": None}})
    assert (whole["probe_fits"], whole["share"]) == (3, pytest.approx(0.8))


def converted(share):
    return Converted("a", 0.1, 5, True, share=share)


def test_stand_ins_by_hand():
    lines = [
        Round(1, absent=4),
        Round(2, absent=3, stand_ins=(StoodIn("a", 10), StoodIn("b", 1, 0.1))),
        Round(3, stand_ins=(StoodIn("a", 13),), checked=(Checked("b", 2, 0.5, 1.0),)),
        # The mean is one over checks, not over rounds; what was not finite is no number.
        Round(4, checked=(Checked("b", 1, None, None), Checked("a", 1, 0.1, 1.0))),
        Round(5, checked=(Checked("a", 1, 0.3, 1.0, l1=0.7), Checked("b", 1, None, None, l1=0.9))),
    ]
    found = figures(lines, rounds=5, target=0.5)
    assert found["stand_ins"] == 3
    assert found["stand_in_age"] == pytest.approx((10 + 1 + 13) / 3)
    assert found["stand_in_error"] == pytest.approx((0.5 + 0.1 + 0.3) / 3)
    assert found["stand_in_l1"] == pytest.approx((0.7 + 0.9) / 2)  # lines of before have none
    assert found["conversions"] == 0


@pytest.mark.parametrize(
    ("rounds", "fifth", "half"),
    [(1, [1], [1]), (2, [2], [2]), (3, [3], [2, 3]), (5, [5], [3, 4, 5]), (7, [6, 7], [4, 5, 6, 7]),
     (100, range(81, 101), range(51, 101))],
)  # fmt: skip
def test_windows_of_odd_lengths(rounds, fifth, half):
    records = [record(r, float(r), float(r)) for r in range(1, rounds + 1)]
    found = figures(records, rounds, target=1.0)
    assert found["accuracy"] == statistics.fmean(fifth)
    assert found["affected_accuracy"] == statistics.fmean(fifth)
    assert found["affected_mean"] == statistics.fmean(half)


def test_rounds_that_were_not_evaluated_are_left_out():
    evaluated = {7: 0.1, 14: 0.2, 20: 0.6}
    records = [record(r, evaluated.get(r), evaluated.get(r)) for r in range(1, 21)]
    found = figures(records, rounds=20, target=0.2)
    assert found["accuracy"] == 0.6
    assert found["affected_mean"] == pytest.approx(0.4)
    assert found["held_from"] == 20  # with a mean of 0.15 in round 14
    assert figures(records, rounds=20, target=0.2, window=7)["held_from"] == 14


def test_without_values():
    records = [record(r, 0.5, None) for r in range(1, 5)]
    found = figures(records, rounds=4, target=0.1)
    assert found["accuracy"] == 0.5
    assert found["affected_accuracy"] is None
    assert found["affected_mean"] is None
    assert found["held_from"] is None
    empty = figures([], rounds=4, target=0.1)
    assert empty["accuracy"] is None
    assert empty["conversions"] == 0


def test_a_target_that_is_met_and_lost_again():
    records = [record(1, 0, 0.2), record(2, 0, 0.5), record(3, 0, 0.1)]
    assert figures(records, 3, target=0.5)["held_from"] is None
    assert figures(records[:2], 3, target=0.35)["held_from"] == 2


def test_a_model_whose_loss_is_no_longer_finite_has_diverged():
    def lines(*losses):
        return [Round(r, accuracy=0.1, loss=loss) for r, loss in enumerate(losses, start=1)]

    assert figures(lines(2.0, 9e9, None), 3, 0.5)["diverged"] is True
    assert figures(lines(2.0, None, 1.0), 3, 0.5)["diverged"] is False
    # An app on real clients may measure no loss at all; other rounds were not evaluated.
    assert figures(lines(None, None), 2, 0.5)["diverged"] is False
    assert figures([*lines(2.0), Round(2)], 2, 0.5)["diverged"] is False


def test_records_may_lack_counts():
    found = figures([Round.from_json({"schema": SCHEMA, "round": 1, "accuracy": 0.5})], 1, 0.5)
    assert (found["conversions"], found["affected_accuracy"]) == (0, None)


def row(accuracy, affected, held, conversions=0, stand_ins=0, age=None, error=None):
    return {
        "accuracy": accuracy,
        "affected_accuracy": affected,
        "affected_mean": affected,
        "held_from": held,
        "diverged": False,
        "conversions": conversions,
        "iterations": 10 * conversions,
        "stand_ins": stand_ins,
        "stand_in_age": age,
        "stand_in_error": error,
        "stand_in_l1": None if error is None else 3 * error,
        "probe_fits": 0,
        "share": None,
    }


def test_over_seeds_by_hand():
    per_seed = {3: row(0.5, 0.2, 10, 1), 1: row(0.7, 0.4, 20, 2)}
    found = over_seeds(per_seed)
    assert found["accuracy"] == pytest.approx(0.6)
    assert found["affected_mean"] == pytest.approx(0.3)
    assert (found["held_from"], found["held_seeds"], found["diverged"]) == (15, 2, 0)
    assert (found["conversions"], found["iterations"]) == (1.5, 15.0)
    # The sample standard deviation of two values: their distance over √2.
    assert found["spread"]["accuracy"] == pytest.approx(0.2 / 2**0.5)
    assert found["spread"]["held_from"] == pytest.approx(10 / 2**0.5)
    assert [r["seed"] for r in found["per_seed"]] == [3, 1]
    assert found["per_seed"][1] == {"seed": 1, **per_seed[1]}


def test_stand_ins_over_seeds():
    rows = {
        0: row(0.5, 0.2, 9, 0, 4, 10.0, 0.2),
        1: row(0.5, 0.2, 9, 0, 2, 20.0),
        2: row(0.5, 0, 9),
    }
    found = over_seeds(rows)
    assert found["stand_ins"] == 2
    assert found["stand_in_age"] == 15
    assert found["stand_in_error"] == 0.2
    assert found["stand_in_l1"] == pytest.approx(0.6)
    assert over_seeds({2: rows[2]})["stand_in_age"] is None


def test_a_seed_without_a_value_leaves_none():
    found = over_seeds({0: row(0.5, None, 10), 1: row(0.7, 0.4, 20), 2: row(0.6, 0.4, 30)})
    assert found["accuracy"] == pytest.approx(0.6)
    assert found["affected_accuracy"] is None
    assert found["spread"]["affected_accuracy"] is None


def test_time_is_a_mean_over_the_seeds_that_hold_the_target():
    rows = {
        0: row(0.5, 0.4, 10),
        1: row(0.7, 0.4, None),
        2: {**row(0.6, 0.4, 30), "diverged": True},
    }
    found = over_seeds(rows)
    assert (found["held_from"], found["held_seeds"], found["diverged"]) == (20, 2, 1)
    assert found["spread"]["held_from"] == pytest.approx(20 / 2**0.5)
    one = over_seeds({0: rows[0], 1: rows[1]})
    assert (one["held_from"], one["held_seeds"], one["spread"]["held_from"]) == (10, 1, None)
    none = over_seeds({1: rows[1]})
    assert (none["held_from"], none["held_seeds"], none["spread"]["held_from"]) == (None, 0, None)


def test_rounds_saved_against_a_reference():
    methods = {
        "plain": over_seeds({0: row(0.5, 0.4, 100), 1: row(0.5, 0.4, 200), 2: row(0.5, 0.4, 50)}),
        "quick": over_seeds({0: row(0.5, 0.4, 50), 1: row(0.5, 0.4, 150), 2: row(0.5, 0.4, None)}),
        "never": over_seeds({0: row(0.5, 0.4, None), 1: row(0.5, 0.4, None)}),
    }
    found = with_savings(methods, "plain")
    quick = found["quick"]
    assert (quick["rounds_saved"], quick["saved_seeds"]) == (50, 2)
    assert quick["share_saved"] == pytest.approx((0.5 + 0.25) / 2)
    assert quick["spread"]["share_saved"] == pytest.approx(0.25 / 2**0.5)
    for label in ("plain", "never"):
        assert (found[label]["rounds_saved"], found[label]["saved_seeds"]) == (None, 0)
    assert {m["share_saved"] for m in with_savings(methods, None).values()} == {None}
    assert "share_saved" not in methods["quick"]["spread"]


def test_the_reference_is_the_chosen_label_or_the_first_unweighted():
    methods = [
        {"name": "no_delay", "label": "no_delay"},
        {"name": "unweighted", "label": "plain"},
        {"name": "convert", "label": "ours"},
    ]
    assert reference_of({"evaluate": {}, "methods": methods}) == "plain"
    assert reference_of({"evaluate": {"reference": "ours"}, "methods": methods}) == "ours"
    assert reference_of({"evaluate": {"reference": "gone"}, "methods": methods}) is None
    assert reference_of({"evaluate": {}, "methods": methods[::2]}) is None


def test_one_seed_has_no_spread():
    found = over_seeds({0: row(0.5, 0.2, 10)})
    assert found["accuracy"] == 0.5
    assert set(found["spread"].values()) == {None}


def test_no_seed():
    found = over_seeds({})
    assert (found["accuracy"], found["conversions"], found["per_seed"]) == (None, 0.0, [])
    assert (found["stand_ins"], found["stand_in_age"], found["stand_in_error"]) == (0.0, None, None)
