import pytest

from unstale.errors import ConfigError
from unstale.experiment.tuning.criteria import (
    CRITERIA,
    DEFAULT,
    check_affected,
    divergence,
    figures_of,
)
from unstale.experiment.tuning.tries import choose
from unstale.run_folder import Round
from unstale.run_folder.summary import figures
from unstale.run_folder.tuning import Try


def line(number, accuracy, affected, loss=1.0, **more):
    return Round(number, accuracy=accuracy, affected_accuracy=affected, loss=loss, **more)


LINES = [line(r, 0.5 + r / 100, r / 10) for r in range(1, 11)]


def test_figures():
    found = figures_of(LINES, 10)
    assert found["affected_mean"] == pytest.approx(0.8)  # rounds 6 to 10
    assert found["accuracy_mean"] == pytest.approx(0.58)
    assert found["affected_accuracy"] == pytest.approx(0.95)  # rounds 9 and 10
    assert found["accuracy"] == pytest.approx(0.595)


def test_names_of_the_summary_mean_the_same_here():
    summary = figures(LINES, 10, 0.8)
    mine = figures_of(LINES, 10)
    assert {key: summary[key] for key in mine if key in summary} == {
        key: value for key, value in mine.items() if key != "accuracy_mean"
    }


def test_rounds_without_evaluation_are_left_out():
    lines = [Round(1), line(2, 0.25, None), Round(3)]
    assert figures_of(lines, 3)["accuracy_mean"] == 0.25
    assert figures_of(lines, 3)["accuracy"] is None
    assert figures_of(lines, 3)["affected_mean"] is None


def test_scores():
    found = figures_of(LINES, 10)
    assert CRITERIA[DEFAULT].score(found) == pytest.approx((0.8 + 0.58) / 2)
    assert CRITERIA["accuracy"].score(found) == pytest.approx(0.595)
    assert CRITERIA["affected_mean"].score({**found, "affected_mean": None}) is None


def scored(affected, overall, criterion):
    means = {"affected_mean": affected, "accuracy_mean": overall}
    return Try({}, score=CRITERIA[criterion].score(means), figures=means)


def test_the_default_does_not_keep_one_class_by_ruining_the_others():
    ruined, sound = (1.0, 0.1), (0.8, 0.9)
    assert choose(tuple(scored(*f, DEFAULT) for f in (ruined, sound)), DEFAULT) == 1
    alone = "affected_mean"
    assert choose(tuple(scored(*f, alone) for f in (ruined, sound)), alone) == 0


def test_ties_are_decided_by_the_second_figure_and_then_by_the_order():
    name = "affected_mean"
    assert choose(tuple(scored(0.5, f, name) for f in (0.1, 0.3, 0.3, 0.2)), name) == 1


def test_a_fault_never_wins():
    bad = Try({}, fault="diverged", figures={"affected_mean": 1.0})
    assert choose((bad, Try({}, score=0.0), bad), DEFAULT) == 1
    assert choose((bad, bad), DEFAULT) is None


def test_divergence():
    assert divergence(LINES) == ""
    assert divergence([Round(1), *LINES]) == ""  # not evaluated, so there is no loss either
    lost = line(3, 0.1, 0.1, loss=None)
    assert divergence([*LINES, lost]) == "diverged: the loss was not finite in round 3"
    thrown = line(2, 0.1, 0.1, notes={"discarded": 1})
    assert divergence([thrown]) == "diverged: the result was not finite in round 2"


def test_criteria_that_need_an_affected_class():
    check_affected("accuracy", (), 0)
    check_affected(DEFAULT, (5,), 0)
    with pytest.raises(ConfigError, match=r"Found none under tuning seed 3\. Give evaluate\.aff"):
        check_affected(DEFAULT, (), 3)
