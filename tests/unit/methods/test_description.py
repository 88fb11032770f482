"""Methods as data: written as JSON, made again, and nothing imported by name."""

import json
from dataclasses import dataclass

import pytest

import unstale as us
from unstale.errors import CheckpointError
from unstale.methods import METHODS, Stateless
from unstale.methods.description import describe_method, rebuild_method


def through_json(method):
    return rebuild_method(json.loads(json.dumps(describe_method(method), allow_nan=False)))


@dataclass(frozen=True, slots=True)
class Stranger(Stateless):
    def apply(self, updates, state, view):
        return us.Outcome(tuple(updates), state)


@dataclass(frozen=True, slots=True)
class Drop(Stateless):
    """A stranger of a known name."""

    def apply(self, updates, state, view):
        return us.Outcome((), state)


@pytest.mark.parametrize("name", METHODS)
def test_every_registered_method_comes_back_equal(name):
    assert through_json(us.method(name)) == us.method(name)


@pytest.mark.parametrize(
    "method",
    [
        us.method("first_order", lam=0.25, fallback="drop", server_lr=0.5),
        us.method("asyn_tiers", bounds=(0, 5, 20), weighing="reversed"),
        us.method("fedat", bounds=(0, 5), weighing="clients"),
        us.method("convert", switching={"at": 155}),
        us.Method(us.chain(us.Drop(3), us.chain(us.FirstOrder(2.0), us.HingeWeight())), us.Tiers()),
        us.Method(us.chain()),
    ],
)
def test_settings_and_parts_within_parts_come_back_equal(method):
    again = through_json(method)
    assert again == method
    assert again.settings == method.settings


def test_tiers_given_as_a_list_come_back_equal():
    assert through_json(us.method("asyn_tiers", bounds=[1, 4])).aggregator == us.Tiers((1, 4))


@pytest.mark.parametrize("part", [Stranger(), us.chain(us.Drop(3), Stranger()), Drop()])
def test_a_part_that_is_not_registered_must_be_passed_by_the_user(part):
    with pytest.raises(CheckpointError, match="Pass the method") as error:
        through_json(us.Method(part))
    assert ("Drop" if isinstance(part, Drop) else "Stranger") in str(error.value)


def test_a_name_in_the_file_is_never_imported():
    value = describe_method(us.method("drop"))
    value["compensator"] = {"part": "os.system", "settings": {"command": "true"}}
    with pytest.raises(CheckpointError, match="registered parts"):
        rebuild_method(value)
