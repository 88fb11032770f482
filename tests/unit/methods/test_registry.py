"""Methods by name: what is known, what is refused, and how a new one is registered."""

import pytest

import unstale as us
import unstale.methods.comparators as comparators
from unstale.errors import ConfigError, UnknownNameError
from unstale.methods import METHODS, MethodSpec, as_method, register

PUBLISHED = {
    "no_delay": (us.Identity(), us.FedAvg()),
    "unweighted": (us.Identity(), us.FedAvg()),
    "weighted": (us.SigmoidWeight(0.25, 10), us.FedAvg()),
    "polynomial": (us.PolynomialWeight(0.5), us.FedAvg()),
    "hinge": (us.HingeWeight(10, 4), us.FedAvg()),
    "exponential": (us.ExponentialWeight(0.1), us.FedAvg()),
    "drop": (us.Drop(0), us.FedAvg()),
    "first_order": (us.FirstOrder(1.0), us.FedAvg()),
    "w_pred": (us.PredictedMove(1.0), us.FedAvg()),
    "asyn_tiers": (us.Identity(), us.Tiers((0,), "clients", "left_out")),
    "fedat": (us.Identity(), us.FedAT((0,), "reversed")),
    "scaled": (us.ScaledWeight(2.0), us.FedAvg()),
    "memory": (us.Memory(), us.FedAvg()),
    "convert": (us.Convert(), us.FedAvg()),
    "generator": (comparators.DataFreeGenerator(), us.FedAvg()),
    "dreams": (comparators.DreamedInputs(), us.FedAvg()),
}


@pytest.fixture
def _restored():
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_name_stands_for_its_parts(name):
    found = us.method(name)
    assert (found.compensator, found.aggregator) == PUBLISHED[name]
    assert (found.name, found.settings) == (name, {})


def test_only_the_oracle_is_without_delay():
    assert [name for name in METHODS if not us.method(name).delayed] == ["no_delay"]


@pytest.mark.parametrize("name", METHODS)
def test_each_method_says_what_it_does(name):
    recipe = METHODS[name]
    assert recipe.does.endswith(".")
    assert recipe.paper
    assert isinstance(us.method(name).compensator, us.Compensator)
    assert isinstance(us.method(name).aggregator, us.Aggregator)


def test_settings_reach_the_compensator_and_the_aggregator():
    found = us.method("weighted", a=0.5, server_lr=0.1)
    assert found.compensator == us.SigmoidWeight(a=0.5, b=10)
    assert found.aggregator == us.FedAvg(server_lr=0.1)
    assert found.settings == {"a": 0.5, "server_lr": 0.1}
    assert us.method("asyn_tiers", bounds=[1, 5]).aggregator == us.Tiers((1, 5))


def test_a_misspelt_name_or_setting_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'first_order'"):
        us.method("frist_order")
    with pytest.raises(UnknownNameError, match="Did you mean 'lam'") as error:
        us.method("first_order", lamb=1)
    assert "fallback" in str(error.value)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("weighted", {"a": "steep"}),
        ("weighted", {"b": "ten"}),
        ("weighted", {"a": None}),
        ("first_order", {"lam": "1"}),
        ("drop", {"max_staleness": "5"}),
        ("asyn_tiers", {"bounds": 5}),
        ("asyn_tiers", {"bounds": "ab"}),
        ("unweighted", {"server_lr": []}),
    ],
)
def test_a_setting_of_the_wrong_type_is_a_config_error_and_not_met_later(name, settings):
    with pytest.raises(ConfigError, match=next(iter(settings)) + "|" + name):
        us.method(name, **settings)


def test_as_method_takes_a_name_a_method_or_a_compensator():
    ready = us.method("drop", max_staleness=3)
    assert as_method(ready) is ready
    assert as_method("drop") == us.method("drop")
    assert as_method(us.Drop(3)) == us.Method(us.Drop(3), us.FedAvg())
    for wrong in (us.Drop, us.FedAvg(), 3, None):
        with pytest.raises(ConfigError, match="or a compensator"):
            as_method(wrong)


@pytest.mark.usefixtures("_restored")
def test_register_adds_and_replaces_only_by_force():
    recipe = MethodSpec("Drops late ones.", "nobody", us.Drop)
    register("late_off", recipe)
    assert us.method("late_off", max_staleness=2).compensator == us.Drop(2)
    with pytest.raises(ConfigError, match="force=True"):
        register("late_off", MethodSpec("x", "y"))
    assert METHODS["late_off"] is recipe
    register("late_off", MethodSpec("x", "y"), force=True)
    assert us.method("late_off").compensator == us.Identity()


@pytest.mark.usefixtures("_restored")
def test_parts_with_a_setting_of_the_same_name_cannot_be_told_apart():
    with pytest.raises(ConfigError, match="different names"):
        register("twice", MethodSpec("x", "y", us.Drop, us.Drop))
    assert "twice" not in METHODS


@pytest.mark.usefixtures("_restored")
def test_a_class_may_be_named_instead_of_imported():
    register("late_off", MethodSpec("Drops late ones.", "nobody", "unstale.methods.drop:Drop"))
    assert METHODS["late_off"].compensator is us.Drop
    assert us.method("late_off", max_staleness=2).compensator == us.Drop(2)


@pytest.mark.usefixtures("_restored")
def test_what_is_wrong_with_a_named_class_is_said_when_the_method_is_made():
    drop = "unstale.methods.drop:Drop"
    register("twice", MethodSpec("x", "y", drop, drop))
    with pytest.raises(ConfigError, match="different names"):
        us.method("twice")
    register("nowhere", MethodSpec("x", "y", "unstale.methods.drop.Drop"))
    with pytest.raises(ConfigError, match=r"'package\.module:Class'"):
        us.method("nowhere")
