"""The check of the recipe: clients that train by another one are noticed, honest ones are not."""

import dataclasses
import logging

import pytest
import torch
from torch import nn

import unstale as us
from unstale.flower.server_log import log_lines
from unstale.methods.conversion import recipe_check, recipe_fits, recipe_verdict
from unstale.methods.conversion.recipe_check import check_recipe
from unstale.methods.conversion.recipe_fits import other_recipes
from unstale.run_folder.schema import OtherRecipe, Round

SPEC = us.LocalSpec(lr=0.2, momentum=0.5, epochs=5)
INPUTS = us.InputSpec(shape=(6,), classes=4, low=-1.5, high=1.5)
DEVIATING = ("c0",)


@pytest.fixture(autouse=True)
def _shorter_fits(monkeypatch):
    monkeypatch.setitem(recipe_fits.SMALL, "iterations", 20)
    monkeypatch.setattr(recipe_verdict, "MIN_SCORE", 0.2)


def data_of(client):
    """Two of four clouds, one of them more often."""
    rng = torch.Generator().manual_seed(client)
    centres = 2 * torch.randn(4, 6, generator=torch.Generator().manual_seed(99))
    y = torch.tensor([client % 4, client % 4, (client + 1) % 4]).repeat(8)
    return (centres[y] + torch.randn(24, 6, generator=rng)).clamp(-6, 6) / 4, y


def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))


def server(local=SPEC, **settings):
    method = us.Convert(calibration=False, recipe_check=us.RecipeCheck(clients=2), **settings)
    return us.Server(model(), method, local=local, inputs=INPUTS, seed=1)


def a_round(it, specs):
    """Four clients, of which some train by other recipes, and one step."""
    for i in range(4):
        version, params = it.check_out(f"c{i}")
        x, y = data_of(i)
        delta = us.local_update(it.model, params, x, y, specs.get(f"c{i}", it.local))
        it.submit(us.Update(f"c{i}", version, delta, len(x)))
    return it.step()


def found_in(it, specs, rounds=8):
    """Whom the server reports, with what it found and when."""
    return {
        one.client: (one.found, report.version)
        for report in (a_round(it, specs) for _ in range(rounds))
        for one in report.line().other_recipes
    }


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"lr": SPEC.lr / 3}, "slower"),
        ({"lr": SPEC.lr * 3}, "faster"),
        ({"optimizer": "adam", "lr": 0.02, "momentum": 0.0}, "adam"),
    ],
)
def test_another_recipe_is_noticed(other, name):
    spec = dataclasses.replace(SPEC, **other)
    found = found_in(server(), dict.fromkeys(DEVIATING, spec))
    assert found, "noticed"
    assert set(found) <= set(DEVIATING), "and nobody else blamed"
    assert {what for what, _ in found.values()} == {name}
    assert max(version for _, version in found.values()) == 8, "within a few rounds"


def test_honest_clients_are_not_reported():
    it = server()
    assert found_in(it, {}) == {}
    assert len(it._parts.state.compensator["recipes"]["done"]) == 2, "all were judged"
    assert it._parts.state.compensator["recipes"]["clients"] == {}, "and nobody else is begun"


def test_a_suspect_is_looked_at_again_with_longer_fits(monkeypatch):
    fitted = []
    real = recipe_check.entries_of

    def spied(updates, view, inversion, model, look):
        fitted.extend((u.client_id, look, view.version) for u in updates)
        return real(updates, view, inversion, model, look)

    monkeypatch.setattr(recipe_check, "entries_of", spied)
    spec = dict.fromkeys(DEVIATING, dataclasses.replace(SPEC, lr=SPEC.lr / 3))
    found = found_in(server(), spec, rounds=9)
    looks = [(look, version) for client, look, version in fitted if client == "c0"]
    assert looks == [(1, 1), (2, 3)], "the second begins where the first ends"
    assert found == {"c0": ("slower", 8)}
    second = recipe_fits.small_fits(us.Inversion(), 2)
    assert (second.iterations, second.max_samples) == (4 * 20, 4 * 16)


def test_a_second_look_asks_for_no_more_than_conversions_do():
    few = us.Inversion(iterations=30, max_samples=3, min_samples=2)
    second = recipe_fits.small_fits(few, 2)
    assert (second.iterations, second.max_samples, second.min_samples) == (30, 3, 3)


@pytest.mark.parametrize("rounds", [2, 6], ids=["first look", "second look"])
def test_saved_in_the_middle_and_resumed(tmp_path, rounds):
    spec = dict.fromkeys(DEVIATING, dataclasses.replace(SPEC, lr=SPEC.lr / 3))
    it = server()
    found_in(it, spec, rounds=rounds)
    it.save(tmp_path)
    again = us.Server.load(tmp_path, model())
    assert found_in(it, spec, rounds=7) == found_in(again, spec, rounds=7) != {}


def test_switched_off_nothing_is_fitted(monkeypatch):
    monkeypatch.setattr(recipe_fits, "fit_parallel", None)
    it = us.Server(model(), us.Convert(calibration=False, recipe_check=False), local=SPEC)
    a_round(it, {})
    assert "recipes" not in it._parts.state.compensator
    assert not us.method("convert", preset="paper").compensator.recipe_check.enabled
    with pytest.raises(us.UnstaleError, match="clients"):
        us.RecipeCheck(clients=0)


def test_who_is_checked_first(monkeypatch):
    """The longest and the shortest update for their round, once there are versions to compare."""
    asked = []
    monkeypatch.setattr(recipe_check, "entries_of", lambda updates, *_: asked.extend(updates) or {})
    ones = {name: torch.ones_like(p) for name, p in us.params_of(model()).items()}

    def update(client, factor, version):
        return us.Update(client, version, {n: factor * p for n, p in ones.items()}, 10)

    def at(version):
        tools = us.ServerView.__dataclass_fields__["tools"].default_factory
        tools = dataclasses.replace(tools(), model=model(), inputs=INPUTS)
        view = us.ServerView(version, ones, lambda v: None, SPEC, torch.Generator(), tools=tools)
        updates = [
            update(c, f, version) for c, f in (("a", 1.0), ("b", 1.1), ("c", 0.1), ("d", 5.0))
        ]
        late = update("e", 99.0, max(version - 1, 0)) if version else update("e", 1.0, 0)
        check_recipe([*updates, late], None, view, us.RecipeCheck(clients=2), us.Inversion())
        return [u.client_id for u in asked]

    assert at(0) == [], "the first version is like no other"
    assert at(1) == ["c", "d"]


def test_the_other_optimizer_moves_as_far():
    delta = {"w": torch.tensor([0.0, 0.3, -0.3])}
    recipes = other_recipes(SPEC, delta, 10)
    assert recipes["adam"].lr == pytest.approx(0.06), "five steps of 0.06"
    assert [r.lr for r in list(recipes.values())[:3]] == pytest.approx([0.2, 0.2 / 3, 0.6])
    assert list(other_recipes(us.LocalSpec(optimizer="adam"), delta, 10))[-1] == "sgd"


def test_it_is_said_loudly():
    one = OtherRecipe("c\n7", "faster", 1.234)
    line = Round(4, changed=True, other_recipes=(one,))
    assert Round.from_json(line.to_json()) == line
    told = [text for level, text in log_lines(line, 9) if level == logging.WARNING]
    assert len(told) == 1
    assert "c 7" in told[0]
    assert "three times as far" in told[0]
    assert "correct the server's recipe" in told[0]
