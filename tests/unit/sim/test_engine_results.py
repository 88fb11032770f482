"""What rounds give: the weights, and the figures in their records."""

import dataclasses
import json

import pytest
import torch
from engine_rounds import (
    MINI,
    SLOW,
    assert_close,
    assert_identical,
    plain_fedavg,
    run,
    trajectory,
)

from unstale.methods import METHODS
from unstale.params import cosine_distance, l1_error
from unstale.server.checks import Limits
from unstale.sim.drift import ResampleDrift
from unstale.sim.engine import Simulation
from unstale.sim.latency import ConstantLatency
from unstale.sim.partition import DirichletClients
from unstale.training.local import LocalSpec, local_update

# --- the trajectory ----------------------------------------------------------------------


@pytest.mark.parametrize("local", [None, MINI], ids=["full", "mini"])
@pytest.mark.parametrize("batched", [False, True], ids=["loop", "batched"])
def test_trajectory_is_fedavg_with_old_base_versions(simulate, local, batched):
    simulation = simulate(
        latency=SLOW,
        overlap=True,
        local=local,
        batched=batched,
        partition=DirichletClients(clients=8, alpha=0.5),  # sizes differ, and so do weights
    )
    jobs = [(r, r + (3 if c in (0, 5) else 0), c) for r in range(9) for c in range(8)]
    wanted = plain_fedavg(simulation, 9, jobs=jobs)
    assert_close(trajectory(simulation, 9), wanted)
    # The test has teeth: updates from one version later give another course.
    fresher = [(min(s + 1, d), d, c) for s, d, c in jobs]
    other = plain_fedavg(simulation, 9, jobs=fresher)
    assert max(float((other[-1][n] - wanted[-1][n]).abs().max()) for n in other[-1]) > 1e-3


def test_trajectory_without_overlap(simulate):
    simulation = simulate(latency=SLOW, overlap=False)
    jobs = [(r, r, c) for r in range(12) for c in range(8) if c not in (0, 5)]
    jobs += [(s, s + 3, c) for s in (0, 4, 8) for c in (0, 5)]
    wanted = plain_fedavg(simulation, 9, jobs=jobs)
    assert_close(trajectory(simulation, 9), wanted)


def test_unstale_is_synchronous_fedavg(simulate):
    simulation = simulate("no_delay", latency=SLOW, overlap=True)
    assert simulation.delayed is False
    jobs = [(r, r, c) for r in range(8) for c in range(8)]
    wanted = plain_fedavg(simulation, 8, jobs=jobs)
    assert_close(trajectory(simulation, 8), wanted)
    assert_identical(trajectory(simulate("unweighted"), 8), trajectory(simulate("no_delay"), 8))


def test_a_drifting_client_trains_on_the_data_of_the_round_it_began_in(simulate):
    simulation = simulate(latency=SLOW, overlap=True, drift=ResampleDrift(per_round=5))
    scenario = simulation.scenario
    assert scenario.examples(5, 0).tolist() != scenario.examples(5, 3).tolist()
    jobs = [(r, r + (3 if c in (0, 5) else 0), c) for r in range(8) for c in range(8)]
    assert_close(trajectory(simulation, 8), plain_fedavg(simulation, 8, jobs=jobs))


@pytest.mark.parametrize("name", METHODS)
def test_without_staleness_all_methods_are_fedavg(simulate, name):
    wanted = trajectory(simulate("unweighted"), 5)
    assert_close(trajectory(simulate(name), 5), wanted, atol=1e-6)


# --- oracle figures ----------------------------------------------------------------------


def test_oracle_figures_change_nothing(simulate):
    plain = simulate("first_order", latency=SLOW, overlap=True, local=MINI)
    judged = simulate("first_order", latency=SLOW, overlap=True, local=MINI, with_oracle=True)
    a, b = run(plain, 8), run(judged, 8)
    assert_identical([plain.server.params], [judged.server.params])
    assert not any(key.startswith("oracle/") for record in a for key in record)
    extra = {f"oracle/{a}_{b}" for a in ("stale", "compensated") for b in ("cosine", "l1")}
    assert [{k: v for k, v in r.items() if k not in extra} for r in b] == a
    assert [r["oracle/stale_cosine"] is None for r in b] == [True] * 3 + [False] * 5


def test_oracle_is_the_update_that_would_be_sent_today(simulate):
    drift = ResampleDrift(per_round=3)
    simulation = simulate(
        latency=ConstantLatency(3, clients=(5,)), overlap=True, with_oracle=True, drift=drift
    )
    versions = trajectory(simulation, 3)
    scenario, data = simulation.scenario, simulation.scenario.data

    def sent(version, now):
        index = scenario.examples(5, now)
        x, y = data.x_train[index], data.y_train[index]
        return local_update(simulation.model, versions[version], x, y, simulation.server.local)

    record = simulation.run_round()
    wanted = cosine_distance(sent(0, 0), sent(3, 3))
    assert record.oracle["stale_cosine"] == pytest.approx(wanted, abs=1e-6)
    assert record.oracle["compensated_cosine"] == pytest.approx(wanted, abs=1e-6)
    assert wanted > 0.01
    wanted = l1_error(sent(0, 0), sent(3, 3))
    assert record.oracle["stale_l1"] == pytest.approx(wanted, abs=1e-5)
    assert record.oracle["compensated_l1"] == pytest.approx(wanted, abs=1e-5)


def test_oracle_of_stand_ins_is_the_update_that_the_absent_would_send(simulate):
    """Under `memory` a stand-in is the client's last update: both sides are known by hand."""
    drift = ResampleDrift(per_round=3)
    simulation = simulate(
        "memory", latency=ConstantLatency(3, clients=(5,)), with_oracle=True, drift=drift
    )
    versions = trajectory(simulation, 4)  # its first update, from version 0, is the last to arrive
    scenario, data = simulation.scenario, simulation.scenario.data

    def sent(version):
        index = scenario.examples(5, version)
        x, y = data.x_train[index], data.y_train[index]
        return local_update(simulation.model, versions[version], x, y, simulation.server.local)

    for round_ in (4, 5):  # asked again, and at work
        record = simulation.run_round()
        assert [one.client for one in record.stand_ins] == [scenario.name(5)]
        wanted = cosine_distance(sent(0), sent(round_))
        assert record.oracle["stand_in_cosine"] == pytest.approx(wanted, abs=1e-6)
        assert wanted > 0.01
        size = l1_error(sent(0), sent(round_))
        assert record.oracle["stand_in_l1"] == pytest.approx(size, abs=1e-5)
        assert (record.oracle["stale_cosine"], record.stale) == (None, 0)
        versions.append(simulation.server.params)


def test_oracle_figures_of_stand_ins_change_nothing(simulate):
    plain = simulate("memory", latency=SLOW, local=MINI)
    judged = simulate("memory", latency=SLOW, local=MINI, with_oracle=True)
    a, b = run(plain, 8), run(judged, 8)
    assert_identical([plain.server.params], [judged.server.params])
    assert [{k: v for k, v in r.items() if not k.startswith("oracle/")} for r in b] == a
    there = ["oracle/stand_in_cosine" in r for r in b]
    assert there == ["stand_ins" in r for r in b]
    assert any(there)


def test_training_that_diverges_still_gives_records(simulate):
    simulation = simulate(
        latency=SLOW, overlap=True, local=LocalSpec(lr=1e39, epochs=2), with_oracle=True
    )
    records = run(simulation, 6)
    json.dumps(records, allow_nan=False)
    assert any(record["refused"] for record in records)


# --- scores and counts -------------------------------------------------------------------


def test_evaluate_every(simulate):
    simulation = simulate(evaluate_every=3)
    records = run(simulation, 7)
    assert [r["accuracy"] is not None for r in records] == [0, 0, 1, 0, 0, 1, 0]
    assert set(records[0]) == set(records[2])
    assert simulation.run_round(evaluate_now=True).accuracy is not None


def test_scores_are_of_the_new_version(simulate):
    simulation = simulate(affected=(1, 2))
    record = simulation.run_round()
    data = simulation.scenario.data
    with torch.no_grad():
        outputs = torch.func.functional_call(
            simulation.model, simulation.server.params, (data.x_test,)
        )
    right = outputs.argmax(1) == data.y_test
    chosen = (data.y_test == 1) | (data.y_test == 2)
    assert record.accuracy == pytest.approx(float(right.double().mean()))
    assert record.affected_accuracy == pytest.approx(float(right[chosen].double().mean()))


def test_affected_classes_come_from_the_scenario_or_the_caller(simulate):
    from unstale.sim.latency import IntertwinedLatency

    latency = IntertwinedLatency(classes=(2,), clients=2, rounds=3)
    assert simulate(latency=latency).affected == (2,)
    assert simulate(latency=latency, affected=(0, 1)).affected == (0, 1)
    assert simulate(latency=latency, affected=()).run_round().affected_accuracy is None


def test_refusals_are_counted(simulate):
    records = run(simulate(limits=Limits(max_norm=1e-6)), 2)
    assert [r["refused"] for r in records] == [{"norm": 8}, {"norm": 8}]
    assert records[-1]["arrivals"] == 0


def test_every_argument_is_kept(simulate):
    simulation = simulate(evaluate_every=4, batched=True, affected=(1,), with_oracle=True)
    assert isinstance(simulation, Simulation)
    assert (simulation.evaluate_every, simulation.batched) == (4, True)
    assert (simulation.affected, simulation.with_oracle) == ((1,), True)
    assert dataclasses.is_dataclass(simulation.scenario.spec)
