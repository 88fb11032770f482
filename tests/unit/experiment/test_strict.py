from dataclasses import dataclass
from typing import Any

import pytest

from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.strict import build, build_kind, fit


@dataclass(frozen=True)
class Spec:
    count: int = 1
    share: float = 0.5
    name: str = "x"
    on: bool = False
    maybe: int | None = None
    pair: tuple[float, float] = (0.1, 0.2)
    many: tuple[int, ...] = ()
    one_or_many: int | tuple[int, ...] = 0
    free: Any = None

    def __post_init__(self):
        if self.count < 0:
            raise ConfigError("`count` should be at least 0.")


def test_values_of_the_right_type():
    given = {
        "count": 3, "share": 0.25, "name": "n", "on": True, "maybe": 4, "pair": [1, 2.5],
        "many": [1, 2], "one_or_many": [3], "free": {"any": 1},
    }  # fmt: skip
    spec = build(Spec, given, "spec")
    assert spec == Spec(3, 0.25, "n", True, 4, (1.0, 2.5), (1, 2), (3,), {"any": 1})
    assert type(spec.pair[0]) is float
    assert build(Spec, {}, "spec") == Spec()
    assert build(Spec, {"maybe": None, "one_or_many": 7}, "spec") == Spec(one_or_many=7)


def test_whole_numbers_become_floats():
    share = build(Spec, {"share": 2}, "spec").share
    assert (share, type(share)) == (2.0, float)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("count", True, "a whole number"),
        ("count", 1.0, "a whole number"),
        ("count", "1", "a whole number"),
        ("count", None, "a whole number"),
        ("share", True, "a number"),
        ("share", "0.5", "a number"),
        ("share", float("nan"), "a finite number"),
        ("share", float("inf"), "a finite number"),
        ("name", 5, "a text"),
        ("on", 1, "true or false"),
        ("on", "yes", "true or false"),
        ("maybe", True, "a whole number or left out"),
        ("maybe", 1.5, "a whole number or left out"),
        ("pair", [1], "a list of 2 values"),
        ("pair", 1, "a list"),
        ("pair", [1, "2"], "a number"),
        ("many", [1, True], "a whole number"),
        ("many", "12", "a list"),
        ("one_or_many", "x", "a whole number or a list"),
    ],
)
def test_values_of_the_wrong_type(key, value, wanted):
    with pytest.raises(ConfigError) as caught:
        build(Spec, {key: value}, "spec")
    assert f"`spec.{key}" in str(caught.value)
    assert f"should be {wanted}. Found " in str(caught.value)


def test_unknown_keys_name_the_nearest():
    with pytest.raises(UnknownNameError, match=r"\[spec\].*'cuont'.*Did you mean 'count'") as e:
        build(Spec, {"cuont": 1}, "spec")
    assert e.value.nearest == "count"


def test_own_checks_say_where():
    with pytest.raises(ConfigError, match=r"^\[spec\] `count` should be at least 0"):
        build(Spec, {"count": -1}, "spec")


@pytest.mark.parametrize("table", [5, "x", [1], None, True])
def test_a_table_should_be_one(table):
    with pytest.raises(ConfigError, match=r"\[spec\] should be a table"):
        build(Spec, table, "spec")


def test_kinds():
    kinds = {"first": Spec, "second": Spec}
    assert build_kind(kinds, {"kind": "second", "count": 2}, "part", "first") == Spec(2)
    assert build_kind(kinds, {}, "part", "first") == Spec()
    with pytest.raises(UnknownNameError, match=r"Did you mean 'second'"):
        build_kind(kinds, {"kind": "secnd"}, "part", "first")
    with pytest.raises(UnknownNameError, match=r"\[part\]"):
        build_kind(kinds, {"kind": 5}, "part", "first")


def test_the_given_table_is_left_alone():
    given = {"kind": "first", "count": 2}
    build_kind({"first": Spec}, given, "part", "first")
    assert given == {"kind": "first", "count": 2}


def test_places_in_lists_are_named():
    with pytest.raises(ConfigError, match=r"`a\[1\]` should be a whole number"):
        fit([1, "x"], tuple[int, ...], "a")
