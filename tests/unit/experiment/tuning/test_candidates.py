import pytest

from unstale.errors import ConfigError
from unstale.experiment.tuning.candidates import Candidates, parse_candidates

GRID = {"lam": [1, 5], "inversion": {"sparsity": [0, 0.5, 0.9]}, "inversion.lr": [0.1, 0.2]}


def test_a_grid_is_every_combination_in_the_files_order():
    found = parse_candidates(GRID, "tune")
    every = [found[position] for position in range(len(found))]
    assert len(every) == 12
    assert every[0] == {"lam": 1, "inversion.sparsity": 0, "inversion.lr": 0.1}
    assert every[1] == {"lam": 1, "inversion.sparsity": 0, "inversion.lr": 0.2}
    assert every[-1] == {"lam": 5, "inversion.sparsity": 0.9, "inversion.lr": 0.2}
    assert len({str(one) for one in every}) == 12


def test_a_list_is_as_it_is():
    found = parse_candidates([{}, {"bounds": [0, 60]}, {"inversion": {"lr": 1}}], "tune")
    assert found.drawn(None, 0, "m") == [{}, {"bounds": [0, 60]}, {"inversion.lr": 1}]


@pytest.mark.parametrize("value", [GRID, [{}, {"lam": 3}]])
def test_json_and_back(value):
    found = parse_candidates(value, "tune")
    assert parse_candidates(found.to_json(), "tune") == found


def test_more_than_the_budget_are_drawn_at_random():
    found = Candidates(grid={"a": list(range(50)), "b": list(range(40))})
    drawn = found.drawn(25, 0, "first")
    assert len({str(one) for one in drawn}) == 25
    assert drawn == found.drawn(25, 0, "first")
    assert drawn != found.drawn(25, 1, "first")
    assert drawn != found.drawn(25, 0, "second")
    # From all over the grid, and in its order.
    assert min(one["a"] for one in drawn) < 15 < 35 < max(one["a"] for one in drawn)
    assert drawn == sorted(drawn, key=lambda one: (one["a"], one["b"]))


def test_a_budget_that_is_large_enough_takes_all():
    found = Candidates(grid={"a": [3, 1, 2]})
    assert found.drawn(3, 0, "m") == found.drawn(9, 0, "m") == [{"a": 3}, {"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5, "[m.tune] should be a table"),
        ({}, "a list of values for at least one setting"),
        ({"lam": 5}, "`m.tune.lam` should be a list of values to try. Found 5."),
        ({"lam": []}, "`m.tune.lam` should be a list of different values. Found an empty list."),
        ({"lam": [1, 2, 1.0]}, "`m.tune.lam` should be a list of different values. Found 1 twice."),
        ([], "list of different tables of settings. Found an empty list."),
        ([{"a": 1}, {"a": 1}], "Found {'a': 1} twice."),
        ([3], "[m.tune] should be a table of settings. Found 3."),
        ({c: list(range(10)) for c in "abcdefg"}, "at most 1,000,000 combinations"),
    ],
)
def test_what_is_wrong(value, said):
    with pytest.raises(ConfigError) as caught:
        parse_candidates(value, "m.tune")
    assert said in str(caught.value)
