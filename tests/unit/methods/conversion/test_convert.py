"""The method `convert`: its parts, each of which can be turned off alone."""

import dataclasses
import json

import pytest
import torch
from late_world import INPUTS, LOCAL, model_of, samples

import unstale as us
from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion import preset
from unstale.inversion.settings import PRESETS
from unstale.methods import Convert, OnlyUnique, SwitchBack
from unstale.methods.conversion import Budget, ConvertAll, StandIn, Switching, Uniqueness
from unstale.methods.description import describe_method, rebuild_method
from unstale.methods.groups import groups_of
from unstale.params import cosine_distance

FEW = {"inversion": {"iterations": 40, "warm_iterations": 10, "sparsity": 0}}
OFF = {"enabled": False}


def names(part):
    found = [type(part).__name__]
    while hasattr(part, "inner"):
        part = part.inner
        found.append(type(part).__name__)
    return found


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, ["SwitchBack", "OnlyUnique", "ConvertAll"]),
        ({"uniqueness": OFF}, ["SwitchBack", "ConvertAll"]),
        ({"switching": OFF}, ["OnlyUnique", "ConvertAll"]),
        ({"uniqueness": OFF, "switching": OFF}, ["ConvertAll"]),
    ],
)
def test_each_part_can_be_turned_off_alone(settings, parts):
    assert names(us.method("convert", **settings).compensator.composed) == parts


def test_every_setting_reaches_its_part():
    part = us.method(
        "convert",
        max_growth=3.0,
        inversion={"lr": 0.01, "history": 2},
        uniqueness={"threshold": 0.9, "unknown": "keep", "rule": "nearest"},
        switching=Switching(window=0.2, disparity="l2", patience=5, keep=3, match_window=0.5),
        stand_in={"max_age": 90, "checked": False},
        calibration={"probes": 2, "candidates": ["gaussian"]},
        budget={"max_clients": 7},
    ).compensator
    inner = ConvertAll(
        us.Inversion(lr=0.01, history=2),
        StandIn(max_age=90, checked=False),
        us.Calibration(probes=2, candidates=("gaussian",)),
        Budget(max_clients=7),
        max_growth=3.0,
    )
    unique = OnlyUnique(inner, Uniqueness(threshold=0.9, unknown="keep", rule="nearest"))
    switching = Switching(window=0.2, disparity="l2", patience=5, keep=3, match_window=0.5)
    assert part.composed == SwitchBack(unique, switching)
    own = {f.name for f in dataclasses.fields(Convert)}
    wrapping = {"uniqueness", "switching", "recipe_check", "group_size"}
    assert own - {f.name for f in dataclasses.fields(ConvertAll)} == wrapping


CAN_BE_OFF = ("uniqueness", "switching", "stand_in", "calibration", "recipe_check")


@pytest.mark.parametrize("name", CAN_BE_OFF)
def test_a_group_that_can_be_off_also_takes_a_bool(name):
    for value in (False, True):
        table = {name: {"enabled": value}}
        wanted = us.method("convert", **table).compensator
        assert getattr(wanted, name).enabled is value
        assert us.method("convert", **{name: value}).compensator == wanted
        assert Convert(**{name: value}) == wanted
    assert Convert(**{name: True}) == Convert() != Convert(**{name: False})


@pytest.mark.parametrize("name", ["inversion", "budget"])
def test_a_group_that_is_always_on_takes_none(name):
    assert {*CAN_BE_OFF, "inversion", "budget"} == {*groups_of(Convert)}
    for value in (False, True):
        with pytest.raises(ConfigError, match=rf"`{name}` should be .*\(...\). Found {value}"):
            us.method("convert", **{name: value})
        with pytest.raises(ConfigError, match=rf"`{name}` should be .*\(...\). Found {value}"):
            Convert(**{name: value})


@pytest.mark.parametrize("value", [0, 1, "false", None, {"enabled": False}])
def test_what_only_looks_like_a_bool_is_none(value):
    with pytest.raises(ConfigError, match=r"`stand_in` should be StandIn\(...\)"):
        Convert(stand_in=value)


def test_an_unknown_setting_of_a_group_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"of 'inversion'.*Did you mean 'sparsity'"):
        us.method("convert", inversion={"sparsty": 0})
    with pytest.raises(ConfigError, match="should have `sparsity` in its group `inversion`"):
        us.method("convert", sparsity=0)
    with pytest.raises(ConfigError, match=r"`inversion` should be Inversion\(...\)"):
        us.method("convert", inversion=0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"uniqueness": {"threshold": -1}},
        {"uniqueness": {"rule": "median"}},
        {"switching": {"window": -1}},
        {"max_growth": -1},
        {"inversion": {"lr": 0}},
        {"budget": {"max_conversions": 0}},
        {"stand_in": {"max_age": 0}},
        {"stand_in": {"max_age": True}},
    ],
)
def test_a_wrong_setting_of_a_part_is_refused_at_once(wrong):
    with pytest.raises(ConfigError):
        us.method("convert", **wrong)


def test_a_preset_goes_below_what_is_given():
    found = us.method("convert", preset="paper", inversion={"iterations": 500})
    part = found.compensator
    wanted = {**PRESETS["paper"], "iterations": 500}
    assert {name: getattr(part.inversion, name) for name in wanted} == wanted
    assert found.settings == {"preset": "paper", "inversion": {"iterations": 500}}
    assert us.method("convert", preset="default") != found
    assert us.method("convert", preset="default").compensator == us.method("convert").compensator


def test_the_preset_of_the_paper_stands_in_for_nobody():
    found = us.method("convert", preset="paper").compensator
    assert not found.stand_in.enabled
    off = {"stand_in": False, "calibration": False, "recipe_check": False}
    assert found == Convert(preset("paper"), **off)
    dense = us.method("convert", preset="paper_dense").compensator
    assert dense == Convert(preset("paper_dense"), **off) != found
    for others in ("default", "thorough", "no_residual"):
        part = us.method("convert", preset=others).compensator
        assert part == Convert(preset(others))
        assert part.stand_in.enabled
    for given in (True, {"enabled": True}):
        assert us.method("convert", preset="paper", stand_in=given).compensator.stand_in.enabled


def test_an_unknown_preset_names_the_nearest_and_others_have_none():
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        us.method("convert", preset="papr")
    with pytest.raises(UnknownNameError, match="setting of method 'drop'"):
        us.method("drop", preset="paper")
    with pytest.raises(UnknownNameError, match="Did you mean 'preset'"):
        us.method("convert", presets="paper")


@pytest.mark.parametrize(
    "method",
    [
        us.method("convert", preset="paper", inversion={"sparsity": 0.5}, switching=OFF),
        us.method("convert", inversion=us.Inversion(max_seconds=2.0)),
        us.method("convert", uniqueness={"rule": "nearest"}),
        us.method("convert", stand_in=False, switching=True),
        us.Method(
            us.chain(
                us.only_unique(us.switch_back(ConvertAll(us.Inversion(history=2)))), us.Drop(9)
            )
        ),
    ],
)
def test_it_can_be_written_down_and_made_again(method):
    again = rebuild_method(json.loads(json.dumps(describe_method(method), allow_nan=False)))
    assert again == method
    assert again.settings == method.settings


def play(server, rounds, told, tau=4, save=None):
    """Fast clients of two classes and a slow one of the third; return its notes by round."""
    seen = []
    for _ in range(rounds):
        now = server.version
        for client, label in (("f0", 0), ("f1", 1), ("s", 2)):
            version, weights = server.check_out(client)
            delta = us.local_update(server.model, weights, *samples(label, client), LOCAL)
            late = tau if client == "s" else 0
            told.append((now + late, us.Update(client, version, delta, 12)))
        due = [update for at, update in told if at == now]
        told[:] = [(at, update) for at, update in told if at != now]
        for update in due:
            assert server.submit(update).accepted
        report = server.step()
        seen.append([(n.kind, n.base_version) for n in report.notes if n.client_id == "s"])
        if save is not None:
            executor, model = server.executor, server.model
            server.save(save)
            server = us.Server.load(save, model, executor=executor)
    return server, seen


def slow_server(method):
    model = model_of()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(0.5 * torch.randn(p.shape, generator=torch.Generator().manual_seed(i)))
    return us.Server(model, method, local=LOCAL, inputs=INPUTS, seed=1)


def test_a_slow_client_is_converted_and_its_error_drops():
    errors = {}
    for name, settings in (("unweighted", {}), ("convert", FEW)):
        server = slow_server(us.method(name, **settings))
        told = []
        server, seen = play(server, 6, told)
        (late,) = [u for at, u in told if at == server.version]
        server.submit(late)
        truth = us.local_update(server.model, server.params, *samples(2, "s"), LOCAL)
        used = {u.client_id: u.delta for u in server.step().updates}["s"]
        errors[name] = cosine_distance(used, truth) / cosine_distance(late.delta, truth)
    assert seen[:4] == [[]] * 4, "before its first arrival nothing comes"
    assert ("converted", 0) in seen[4]
    assert errors["unweighted"] == 1
    assert errors["convert"] < 0.5


def test_a_run_goes_on_bit_by_bit_from_what_was_saved(tmp_path):
    inversion = {"iterations": 6, "warm_iterations": 3, "history": 3, "max_loss": 9.0}
    ends = []
    for save in (None, tmp_path):
        server, seen = play(
            slow_server(us.method("convert", inversion=inversion)), 9, [], save=save
        )
        ends.append((server.params, seen, server.to_tree()[0]["compensator"]))
    (whole, notes, state), (pieces, again, restored) = ends
    assert all(torch.equal(whole[n], pieces[n]) for n in whole)
    assert notes == again
    assert ("measured", 4) in notes[8], "the truth for version 4 came at version 8"
    assert sum(kind == "converted" for of_round in notes for kind, _ in of_round) == 5
    assert state.keys() == restored.keys() == {"inner", "clients", "recipes"}
