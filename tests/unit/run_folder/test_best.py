import pytest

from unstale.run_folder.best import FIGURES, NEAR, Entrant, best_of, entrants_of


def entrant(accuracy=0.9, affected=0.9, mean=0.9, held=50.0, saved=None, **more):
    return Entrant(
        {
            "accuracy": accuracy,
            "affected_accuracy": affected,
            "affected_mean": mean,
            "held_from": held,
            "share_saved": saved,
        },
        **more,
    )


def test_the_best_of_each_column():
    found = best_of({
        "a": entrant(0.90, 0.91, 0.80, 60.0, -0.2),
        "b": entrant(0.91, 0.90, 0.85, 50.0, 0.1),
    })  # fmt: skip
    assert found == {
        "accuracy": {"b"},
        "affected_accuracy": {"a"},
        "affected_mean": {"b"},
        "held_from": {"b"},
        "share_saved": {"b"},
    }
    assert set(found) == set(FIGURES)


def test_a_method_that_ends_far_from_the_best_is_not_marked_anywhere():
    # It calls everything a five: the fives are right at once, the rest is lost.
    fives = entrant(accuracy=0.1, affected=1.0, mean=1.0, held=1.0, saved=0.9)
    found = best_of({"fives": fives, "good": entrant(), "other": entrant(0.88, held=70.0)})
    assert found["affected_mean"] == {"good", "other"}
    assert found["held_from"] == {"good"}
    assert not any("fives" in labels for labels in found.values())


@pytest.mark.parametrize(("gap", "marked"), [(NEAR, {"low"}), (NEAR + 1e-6, {"high"})])
def test_near_is_at_most_so_far_below(gap, marked):
    low = entrant(accuracy=0.9 - gap, mean=0.95)
    assert best_of({"low": low, "high": entrant()})["affected_mean"] == marked


def test_time_counts_only_with_the_affected_accuracy_of_the_best():
    quick = entrant(accuracy=0.9, affected=0.81, held=20.0)
    found = best_of({"quick": quick, "good": entrant(affected=0.95, held=60.0)})
    assert found["held_from"] == {"good"}
    assert found["accuracy"] == {"quick", "good"}


def test_time_counts_only_if_every_seed_holds_the_target():
    some = entrant(held=20.0, held_in_all=False)
    found = best_of({"some": some, "all": entrant(held=60.0)})
    assert found["held_from"] == {"all"}
    assert best_of({"some": some, "none": entrant(held=None)})["held_from"] == frozenset()


def test_a_method_that_diverged_is_never_marked_nor_the_measure_of_others():
    lost = entrant(accuracy=0.99, affected=0.99, mean=0.99, held=5.0, diverged=True)
    found = best_of({"lost": lost, "good": entrant(), "bad": entrant(accuracy=0.5)})
    assert found["accuracy"] == {"good"}
    assert not any("lost" in labels for labels in found.values())


def test_what_has_no_accuracy_is_not_marked():
    failed = entrant(accuracy=None, affected=None, mean=0.99, held=5.0)
    found = best_of({"failed": failed, "good": entrant(), "same": entrant()})
    assert found["affected_mean"] == {"good", "same"}


def test_numbers_that_read_the_same_are_marked_alike():
    found = best_of({
        "a": entrant(accuracy=0.9001, held=50.4),
        "b": entrant(accuracy=0.9004, held=49.6),
        "c": entrant(accuracy=0.8996, held=50.6),
        "d": entrant(accuracy=0.8994, held=51.4),
    })  # fmt: skip
    assert found["accuracy"] == {"a", "b", "c"}
    assert found["held_from"] == {"a", "b"}


def test_one_alone_is_not_marked_but_one_that_is_left_is():
    assert not any(best_of({"a": entrant()}).values())
    assert not any(best_of({}).values())
    assert best_of({"a": entrant(), "b": entrant(accuracy=0.2)})["accuracy"] == {"a"}


def test_who_competes_by_a_summary():
    methods = {
        "ceiling": {"name": "no_delay", "accuracy": 1.0, "held_seeds": 2, "per_seed": [{}, {}]},
        "a": {"name": "drop", "accuracy": 0.5, "held_seeds": 2, "per_seed": [{}, {}]},
        "b": {"name": "drop", "accuracy": 0.6, "held_seeds": 1, "per_seed": [{}, {}],
              "diverged": 1},
    }  # fmt: skip
    found = entrants_of(methods)
    assert set(found) == {"a", "b"}
    assert [(one.held_in_all, one.diverged) for one in found.values()] == [
        (True, False),
        (False, True),
    ]
    assert found["a"].values["accuracy"] == 0.5


def test_nothing_is_marked_that_failed():
    """Zeros that tie are no success, and neither is the smallest loss of rounds."""
    failed = Entrant({"accuracy": 0.8, "affected_mean": 0.0, "share_saved": -0.2})
    nothing = best_of(dict.fromkeys("ab", failed))
    assert nothing["affected_mean"] == nothing["share_saved"] == frozenset()
    assert nothing["accuracy"] == {"a", "b"}
