import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unstale import data
from unstale.errors import ConfigError
from unstale.sim import Scenario, ScenarioSpec, Simulation
from unstale.sim.drift import LookDrift, LookTestSet, NoDrift, ResampleDrift, ShiftDrift
from unstale.sim.latency import IntertwinedLatency, NoLatency
from unstale.sim.partition import DirichletLabels, OneClass

LABELS = np.random.default_rng(0).integers(0, 5, 1000)
NEW = np.random.default_rng(1).integers(0, 5, 700)
PARTS = DirichletLabels(clients=6, samples=40, alpha=0.5).split(LABELS, None, 0)
BOTH = np.concatenate([LABELS, NEW])


def plan_of(parts=PARTS, slow=(), new_labels=NEW, **settings):
    return LookDrift(**settings).plan(parts, LABELS, 0, slow=slow, new_labels=new_labels)


def new_ones(plan, client, round):
    return int((plan.indices(client, round) >= len(LABELS)).sum())


@pytest.mark.parametrize(
    ("rate", "counts"),
    [
        (0.25, [0, 0, 0, 0, 1, 1, 1, 1, 2]),
        (0.5, [0, 0, 1, 1, 2, 2, 3, 3, 4]),
        (1, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (1.5, [0, 1, 3, 4, 6, 7, 9, 10, 12]),
        (30, [0, 30, 40, 40, 40, 40, 40, 40, 40]),
        (99, [0, 40, 40, 40, 40, 40, 40, 40, 40]),
    ],
)
def test_so_many_are_replaced_and_then_it_stays(rate, counts):
    plan = plan_of(per_round=rate)
    for client in range(6):
        assert [new_ones(plan, client, round) for round in range(9)] == counts


def test_fractions_are_taken_as_they_are_written():
    # In floats 0.29 · 100 is 28.999….
    for drift in (LookDrift, ResampleDrift, ShiftDrift):
        plan = drift(per_round=0.29).plan(PARTS, LABELS, 0, new_labels=NEW)
        before, after = plan.indices(0, 99), plan.indices(0, 100)
        assert (plan.indices(0, 100) != PARTS[0]).sum() == 29
        assert (before != after).sum() == 1


@given(
    rate=st.floats(0, 60, allow_nan=False),
    round=st.integers(0, 300),
    client=st.integers(0, 5),
    repeat=st.booleans(),
)
def test_the_class_at_each_place_never_changes(rate, round, client, repeat):
    held = plan_of(per_round=rate, repeat=repeat).indices(client, round)
    assert held.dtype == np.int64
    assert (BOTH[held] == LABELS[PARTS[client]]).all()
    old = held < len(LABELS)
    assert (held[old] == PARTS[client][old]).all()


def test_clients_get_different_new_samples_as_long_as_there_are_enough():
    plan = plan_of(per_round=40)
    held = np.concatenate([plan.indices(client, 1) for client in range(6)])
    assert (held >= len(LABELS)).all()
    assert len(np.unique(held)) == 240
    few = np.arange(10) % 5  # two of each class: they are shared
    held = np.concatenate([plan_of(per_round=40, new_labels=few).indices(c, 1) for c in range(6)])
    assert set(held.tolist()) == set(range(1000, 1010))


def test_repeating_goes_to_and_fro():
    plan = plan_of(per_round=20, repeat=True)
    assert [new_ones(plan, 3, round) for round in range(7)] == [0, 20, 40, 20, 0, 20, 40]
    assert (plan.indices(3, 4) == PARTS[3]).all()
    assert (plan.indices(3, 5) == plan.indices(3, 1)).all()
    # Those that changed first change back first.
    first = plan.indices(3, 1) >= len(LABELS)
    assert ((plan.indices(3, 3) >= len(LABELS)) == ~first).all()


def test_start_and_stop():
    plan = plan_of(per_round=0.5, start=4, stop=8)
    assert [new_ones(plan, 0, round) for round in range(12)] == [0] * 6 + [1, 1] + [2] * 4


@pytest.mark.parametrize(("clients", "those"), [("slow", {1, 4}), ("fast", {0, 2, 3, 5})])
def test_only_some_clients(clients, those):
    plan = plan_of(per_round=5, slow=[1, 4], clients=clients)
    assert {client for client in range(6) if new_ones(plan, client, 3)} == those


def test_only_some_classes():
    plan = plan_of(per_round=40, classes=(2, 3))
    for client, part in enumerate(PARTS):
        new = plan.indices(client, 1) >= len(LABELS)
        assert (new == np.isin(LABELS[part], [2, 3])).all()


def test_it_does_not_depend_on_the_order_of_questions():
    forwards = [plan_of(per_round=0.7).indices(2, round) for round in range(40)]
    plan = plan_of(per_round=0.7)
    for round in (39, 3, 17, 0):
        found = plan.indices(np.int64(2), round)
        assert (found == forwards[round]).all()
        found[:] = -1  # what is returned can be changed without harm
        assert (plan.indices(2, round) == forwards[round]).all()
    other = LookDrift(per_round=0.7).plan(PARTS, LABELS, 1, new_labels=NEW)
    assert (other.indices(2, 39) != forwards[39]).any()


def test_shares_are_those_of_all_clients_together():
    plan = plan_of(per_round=3, slow=[0, 1], clients="slow")
    held = np.concatenate([plan.indices(client, 7) for client in range(6)])
    shares = plan.shares(7, 6)
    for klass in range(5):
        mine = held[BOTH[held] == klass]
        assert shares[klass] == pytest.approx((mine >= len(LABELS)).mean())
    assert shares[5] == pytest.approx((held >= len(LABELS)).mean())  # a class that nobody holds


@pytest.mark.parametrize(
    "bad",
    [
        {"per_round": -0.5},
        {"start": -1},
        {"start": 5, "stop": 4},
        {"clients": "late"},
        {"test": "both"},
    ],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(ConfigError, match=r"should .* Found "):
        LookDrift(**bad)


def test_data_without_a_new_look_is_refused():
    with pytest.raises(ConfigError, match="data with two looks"):
        LookDrift().plan(PARTS, LABELS, 0)
    with pytest.raises(ConfigError, match="none of class 3"):
        plan_of(new_labels=NEW[NEW != 3])
    without = plan_of(new_labels=NEW[NEW != 3], classes=(1,), per_round=40)
    ones = [int((LABELS[part] == 1).sum()) for part in PARTS]
    assert [new_ones(without, client, 1) for client in range(6)] == ones


# --- the test set ---------------------------------------------------------------------

TEST = np.array([0] * 10 + [1] * 20 + [0] * 12 + [1] * 20)


def test_the_mixed_test_set_has_the_shares_and_keeps_its_classes():
    chosen = LookTestSet("clients", TEST, 30)
    assert chosen.indices(np.zeros(2)).tolist() == list(range(30))
    assert (chosen.indices(np.ones(2)) >= 30).all()
    mixed = chosen.indices(np.array([0.3, 0.75]))
    assert np.bincount(TEST[mixed]).tolist() == [10, 20]
    assert np.bincount(TEST[mixed[mixed >= 30]]).tolist() == [3, 15]
    assert len(np.unique(mixed)) == 30
    # A larger share adds to the new ones.
    more = chosen.indices(np.array([0.4, 0.75]))
    assert set(mixed[mixed >= 30]) < set(more[more >= 30])


def test_the_test_set_of_one_look():
    assert LookTestSet("old", TEST, 30).indices(np.ones(2)).tolist() == list(range(30))
    assert LookTestSet("new", TEST, 30).indices(np.zeros(2)).tolist() == list(range(30, 62))


def test_a_new_look_with_too_few_test_samples():
    with pytest.raises(ConfigError, match=r"Found 2 and 10 of class 0.*test = \"old\""):
        LookTestSet("clients", TEST[:32].copy(), 30)
    assert len(LookTestSet("new", TEST[:32], 30).indices(np.ones(2))) == 2


# --- in a scenario --------------------------------------------------------------------


@pytest.fixture
def two_looks(tiny):
    """The tiny data set, and the same clouds mirrored as the new look."""
    mirrored = data.Dataset(
        "mirrored", -tiny.x_train, tiny.y_train, -tiny.x_test, tiny.y_test, tiny.classes, -10, 10
    )
    return data.join_looks(tiny, mirrored)


def scenario_of(two_looks, drift, latency=None):
    spec = ScenarioSpec(OneClass(clients=8, samples=10), latency or NoLatency(), drift=drift)
    return Scenario(spec, two_looks, 0)


def test_clients_begin_with_the_old_look(tiny, two_looks):
    plain = Scenario(ScenarioSpec(OneClass(clients=8, samples=10), NoLatency()), tiny, 0)
    scenario = scenario_of(two_looks, LookDrift(per_round=0.5))
    for client in range(8):
        assert torch.equal(scenario.examples(client, 1), plain.examples(client, 1))
        later = two_looks.x_train[scenario.examples(client, 20)]
        assert not torch.equal(later, two_looks.x_train[scenario.examples(client, 19)])
        assert (scenario.examples(client, 20) >= 160).all()


def test_the_test_set_of_a_round_follows_the_clients(two_looks):
    latency = IntertwinedLatency(classes=(2,), clients=2, rounds=7)
    scenario = scenario_of(two_looks, LookDrift(clients="slow", per_round=1), latency)
    tested = scenario.test_examples(4)
    new = two_looks.y_test[tested[tested >= 40]]
    assert new.tolist() == [2] * 4  # class 2 has ten test samples, of which four in ten are new
    assert scenario.describe()["test_counts"] == [10, 10, 10, 10]
    assert scenario.describe()["test_set"] == (
        "tiny and mirrored, of each class as clients hold them in that round"
    )


@pytest.mark.parametrize(
    ("drift", "indices", "says"),
    [
        (LookDrift(test="old"), range(40), "tiny, the old look"),
        (LookDrift(test="new"), range(40, 80), "mirrored, the new look"),
        (NoDrift(), range(40), "tiny, the old look"),
    ],
)
def test_a_test_set_of_one_look_is_said(two_looks, drift, indices, says):
    scenario = scenario_of(two_looks, drift)
    assert scenario.test_examples(9).tolist() == list(indices)
    assert scenario.describe()["test_set"] == says


def test_data_with_one_look_is_tested_on_all_of_it(tiny):
    scenario = Scenario(ScenarioSpec(OneClass(clients=8, samples=10), NoLatency()), tiny, 0)
    assert scenario.test_examples(3) is None
    assert "test_set" not in scenario.describe()


def test_the_model_is_scored_on_the_mix_of_the_round_that_it_was_trained_in(two_looks, simulate):
    scenario = scenario_of(two_looks, LookDrift(per_round=2))
    plain = simulate()
    simulation = Simulation(plain.server, plain.model, scenario)
    lines = [simulation.run_round() for _ in range(4)]
    tested = scenario.test_examples(3)
    assert [(tested >= 40).sum(), (scenario.test_examples(4) >= 40).sum()] == [24, 32]
    with torch.no_grad():
        outputs = torch.func.functional_call(
            simulation.model, simulation.server.params, (two_looks.x_test,)
        )
    right = (outputs.argmax(1) == two_looks.y_test).double()
    assert lines[-1].accuracy == pytest.approx(float(right[tested].mean()))
    assert json.loads(json.dumps(scenario.describe())) == scenario.describe()
