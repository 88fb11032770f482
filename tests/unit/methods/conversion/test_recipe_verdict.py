"""The verdict on a client's recipe: its formula, and when it is sure enough."""

import math

import pytest

from unstale.methods.conversion import recipe_verdict
from unstale.methods.conversion.recipe_verdict import compared, verdict


@pytest.fixture(autouse=True)
def _as_shipped(monkeypatch):
    monkeypatch.setattr(recipe_verdict, "MIN_SCORE", 0.2)


def test_the_formula():
    """f = ln(0.4 / 0.1), p = mean of ln(0.6 / 0.3) and ln(0.5 / 0.4), by hand."""
    scores = [
        compared({"assumed": 0.6, "slower": 0.9, "faster": 0.3}),
        compared({"assumed": 0.5, "slower": 0.5, "faster": 0.4}),
    ]
    found = verdict({"assumed": 0.4, "slower": 0.5, "faster": 0.1}, scores)
    assert found.recipe == "faster"
    assert found.score == pytest.approx(math.log(4) + (math.log(2) + math.log(1.25)) / 2)


def test_small_errors_and_losses_count_alike():
    assert compared({"assumed": 1e-4, "faster": 1e-9}) == {"faster": 0.0}
    found = verdict({"assumed": 0.1, "faster": 1e-3}, [{"faster": 0.0}])
    assert found.score == 0, "a fit of a tenth is good, and better ones tell nothing"


@pytest.mark.parametrize(
    ("losses", "predicted", "first", "second"),
    [
        # (assumed, faster), ln of errors, what a first and a second look say
        pytest.param((0.5, 0.05), 0.5, "look again", "reported", id="another"),
        pytest.param((0.1, 0.1), 0.4, "look again", "not reported", id="may be chance"),
        pytest.param((0.3, 0.4), 1.9, "look again", "not reported", id="fits worse"),
        pytest.param((0.1, 0.1), 0.1, "not reported", "not reported", id="as good"),
        pytest.param((0.1, 0.3), -0.5, "not reported", "not reported", id="worse"),
    ],
)
def test_what_is_done(losses, predicted, first, second):
    found = verdict(dict(zip(("assumed", "faster"), losses, strict=True)), [{"faster": predicted}])

    def said(look):
        assert not (found.is_reported(look) and found.needs_second_look(look))
        if found.needs_second_look(look):
            return "look again"
        return "reported" if found.is_reported(look) else "not reported"

    assert (said(1), said(2)) == (first, second)
