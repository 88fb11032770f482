import numpy as np
import pytest
import torch

from unstale.errors import ConfigError
from unstale.sim import Scenario, ScenarioSpec
from unstale.sim.availability import MarkovAvailability, TraceAvailability
from unstale.sim.cohort import SampledCohort
from unstale.sim.drift import ResampleDrift
from unstale.sim.latency import ConstantLatency, IntertwinedLatency, NoLatency
from unstale.sim.partition import Iid, OneClass


def one_class(clients=8, samples=10):
    return OneClass(clients=clients, samples=samples)


def test_seed_decides_everything(tiny):
    spec = ScenarioSpec(
        partition=Iid(clients=6, samples=12),
        latency=ConstantLatency(3, clients=(1, 4)),
        cohort=SampledCohort(size=3),
        availability=MarkovAvailability(drop=0.3),
        drift=ResampleDrift(per_round=2),
    )

    def course(seed):
        scenario = Scenario(spec, tiny, seed)
        drawn = [scenario.drawn(r, set()) for r in range(20)]
        held = [scenario.examples(c, r).tolist() for c in range(6) for r in (0, 5)]
        return drawn, held, scenario.describe()

    assert course(0) == course(0)
    assert course(0)[0] != course(1)[0]
    assert course(0)[1] != course(1)[1]


def test_asking_about_one_round_changes_no_other(tiny):
    spec = ScenarioSpec(
        one_class(), NoLatency(), SampledCohort(size=3), MarkovAvailability(drop=0.5)
    )
    forth, back = Scenario(spec, tiny, 0), Scenario(spec, tiny, 0)
    rounds = range(15)
    ahead = {r: forth.drawn(r, set()) for r in rounds}
    assert {r: back.drawn(r, set()) for r in reversed(rounds)} == ahead


@pytest.mark.parametrize("clients", [1, 2, 9, 10, 11, 101])
def test_names_sort_like_numbers(tiny, clients):
    spec = ScenarioSpec(OneClass(clients=clients, samples=1), NoLatency())
    scenario = Scenario(spec, tiny, 0)
    names = [scenario.name(c) for c in range(clients)]
    assert names == sorted(names)
    assert len(set(names)) == clients == scenario.num_clients


def test_slow_and_fast_are_all(tiny):
    spec = ScenarioSpec(one_class(), IntertwinedLatency(classes=(2,), clients=2, rounds=7))
    scenario = Scenario(spec, tiny, 0)
    assert scenario.slow == [2, 6]  # client i holds class i mod 4
    assert scenario.fast == [0, 1, 3, 4, 5, 7]
    assert scenario.affected == (2,)


def test_busy_clients_are_asked_only_where_work_may_overlap(tiny):
    latency = ConstantLatency(5, clients=(1, 2))
    apart = Scenario(ScenarioSpec(one_class(), latency), tiny, 0)
    assert apart.drawn(3, {1, 4}) == ([0, 2, 3, 5, 6, 7], [1, 4])
    over = Scenario(ScenarioSpec(one_class(), latency, overlap=True), tiny, 0)
    assert over.drawn(3, {1, 4}) == (list(range(8)), [])


def test_clients_that_are_away_are_absent(tiny, tmp_path):
    trace = tmp_path / "away.csv"
    trace.write_text("client,from,to\n3,2,4\n")
    spec = ScenarioSpec(
        one_class(), NoLatency(), availability=TraceAvailability(str(trace)), overlap=True
    )
    scenario = Scenario(spec, tiny, 0)
    drawn = [scenario.drawn(r, set()) for r in range(6)]
    assert [3 in asked for asked, _ in drawn] == [1, 1, 0, 0, 1, 1]
    assert [absent for _, absent in drawn] == [[], [], [3], [3], [], []]


def test_cohort_is_drawn_from_fast_and_slow(tiny):
    spec = ScenarioSpec(
        one_class(), ConstantLatency(4, clients=(0, 1)), SampledCohort(fast=2, slow=1)
    )
    scenario = Scenario(spec, tiny, 0)
    for r in range(10):
        asked, absent = scenario.drawn(r, set())
        assert (len(asked), absent) == (3, [])
        assert sum(c in (0, 1) for c in asked) == 1
        # Both slow ones at work: the same draw, and nobody takes the place of the one in it.
        left, missing = scenario.drawn(r, {0, 1})
        assert sorted([*left, *missing]) == asked
        assert missing == [c for c in asked if c in (0, 1)]


def test_examples_are_indices_of_the_histogram(tiny):
    scenario = Scenario(ScenarioSpec(one_class(), NoLatency()), tiny, 0)
    for client in range(8):
        index = scenario.examples(client, round=9)
        assert index.dtype == torch.int64
        counts = np.bincount(tiny.y_train[index].numpy(), minlength=4)
        assert counts.tolist() == scenario.histogram[client].tolist()
        assert counts[client % 4] == 10


def test_describe(tiny):
    spec = ScenarioSpec(one_class(), IntertwinedLatency(classes=(2,), clients=2, rounds=7))
    found = Scenario(spec, tiny, 5).describe()
    assert found["seed"] == 5
    assert found["classes"] == ["a", "b", "c", "d"]
    assert found["affected"] == [2]
    assert found["test_counts"] == [10, 10, 10, 10]
    assert len(found["clients"]) == 8
    assert found["clients"][6] == {
        "id": "client-6",
        "examples": 10,
        "histogram": [0, 0, 10, 0],
        "latency": 7.0,
        "slow": True,
    }
    assert [c["slow"] for c in found["clients"]] == [0, 0, 1, 0, 0, 0, 1, 0]


def test_describe_is_plain_json(tiny):
    import json

    spec = ScenarioSpec(
        Iid(clients=3, samples=7), ConstantLatency(2), drift=ResampleDrift(per_round=1)
    )
    found = Scenario(spec, tiny, 0).describe()
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_settings_that_do_not_fit_the_data(tiny):
    with pytest.raises(ConfigError):
        Scenario(ScenarioSpec(one_class(), IntertwinedLatency(classes=(4,), clients=1)), tiny, 0)
    with pytest.raises(ConfigError):
        Scenario(ScenarioSpec(one_class(samples=1000), NoLatency()), tiny, 0)
