import dataclasses
import json

import pytest
import torch

from unstale.checkpoint import Checkpoints
from unstale.checks import Limits
from unstale.history import HistorySpec
from unstale.local import LocalSpec, local_update
from unstale.methods import METHODS
from unstale.params import add, cosine_distance, params_of, weighted_mean
from unstale.seeding import generator
from unstale.sim.availability import TraceAvailability
from unstale.sim.cohort import SampledCohort
from unstale.sim.drift import ResampleDrift
from unstale.sim.engine import Simulation
from unstale.sim.latency import ConstantLatency, UniformLatency
from unstale.sim.partition import DirichletClients

SLOW = ConstantLatency(3, clients=(0, 5))
MINI = LocalSpec(lr=0.3, momentum=0.5, epochs=2, batch_size=4)


def watch(simulation):
    """Note every (round, client, base version) that reaches the server."""
    seen = []
    submit = simulation.server.submit

    def noted(update):
        receipt = submit(update)
        number = int(update.client_id.removeprefix("client-"))
        seen.append((simulation.server.version, number, update.base_version))
        return receipt

    simulation.server.submit = noted
    return seen


def run(simulation, rounds):
    """Run rounds; return the records without times."""
    records = [simulation.run_round() for _ in range(rounds)]
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def trajectory(simulation, rounds):
    """Run rounds; return every version's weights."""
    versions = [simulation.server.params]
    for _ in range(rounds):
        simulation.run_round()
        versions.append(simulation.server.params)
    return versions


def plain_fedavg(simulation, rounds, *, jobs):
    """The same by hand: a list of versions, and `jobs` (start, due, client) that arrive."""
    scenario, local = simulation.scenario, simulation.server.local
    x, y = scenario.data.x_train, scenario.data.y_train
    versions = [params_of(simulation.model)]
    for now in range(rounds):
        deltas, counts = [], []
        for start, due, client in jobs:
            if due != now:
                continue
            index = scenario.examples(client, start)
            shuffle = generator(scenario.seed, "batches", client, start)
            deltas.append(
                local_update(simulation.model, versions[start], x[index], y[index], local, shuffle)
            )
            counts.append(len(index))
        mean = weighted_mean(deltas, counts) if deltas else None
        versions.append(versions[-1] if mean is None else add(versions[-1], mean))
    return versions


def assert_close(found, wanted, atol=2e-5):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        for name in b:
            torch.testing.assert_close(a[name], b[name], rtol=0, atol=atol)


def assert_identical(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert all(torch.equal(a[name], b[name]) for name in b)


# --- what arrives when -------------------------------------------------------------------


def test_without_latency_everyone_arrives_in_the_round(simulate):
    simulation = simulate()
    seen = watch(simulation)
    run(simulation, 3)
    assert seen == [(r, c, r) for r in range(3) for c in range(8)]


def test_slow_clients_arrive_late_from_their_base_version(simulate):
    simulation = simulate(latency=SLOW, overlap=True)
    seen = watch(simulation)
    records = run(simulation, 8)
    fast = [c for c in range(8) if c not in (0, 5)]
    assert sorted(seen) == sorted(
        [(r, c, r) for r in range(8) for c in fast]
        + [(r, c, r - 3) for r in range(3, 8) for c in (0, 5)]
    )
    # Before its first arrival a slow client contributes nothing.
    assert [record["arrivals"] for record in records] == [6, 6, 6, 8, 8, 8, 8, 8]
    assert [record["stale"] for record in records] == [0, 0, 0, 2, 2, 2, 2, 2]
    assert records[3]["staleness"] == {"mean": 0.75, "max": 3, "counts": {"0": 6, "3": 2}}
    assert [record["round"] for record in records] == list(range(1, 9))


def test_one_job_at_a_time_without_overlap(simulate):
    simulation = simulate(latency=SLOW, overlap=False)
    seen = watch(simulation)
    run(simulation, 12)
    # Asked at 0, answers at 3 (and is asked again one round later, when it is idle).
    assert [(r, b) for r, c, b in seen if c == 5] == [(3, 0), (7, 4), (11, 8)]
    assert [r for r, c, _ in seen if c == 1] == list(range(12))


def test_latency_per_job(simulate):
    latency = UniformLatency(low=0, high=4)
    simulation = simulate(latency=latency, overlap=True)
    seen = watch(simulation)
    run(simulation, 10)
    plan = simulation.scenario.latency
    wanted = [
        (start + plan.rounds(client, start), client, start)
        for start in range(10)
        for client in range(8)
        if start + plan.rounds(client, start) < 10
    ]
    assert sorted(seen) == sorted(wanted)
    # Two updates of one client in one round, from different versions, both count.
    pairs = [(r, c) for r, c, _ in seen]
    assert len(pairs) > len(set(pairs))
    assert simulation.server.step().refused == {}


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
    simulation = simulate("unstale", latency=SLOW, overlap=True)
    assert simulation.delayed is False
    jobs = [(r, r, c) for r in range(8) for c in range(8)]
    wanted = plain_fedavg(simulation, 8, jobs=jobs)
    assert_close(trajectory(simulation, 8), wanted)
    assert_identical(trajectory(simulate("unweighted"), 8), trajectory(simulate("unstale"), 8))


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


def test_methods_meet_the_same_events(simulate):
    latency = UniformLatency(low=0, high=4, share=0.5)
    courses = []
    for name in ("unweighted", "weighted", "first_order", "drop"):
        simulation = simulate(
            name, latency=latency, cohort=SampledCohort(size=4), local=MINI, overlap=False
        )
        courses.append(watch(simulation))
        run(simulation, 15)
    assert all(course == courses[0] for course in courses)


# --- clients that leave ------------------------------------------------------------------


def away(tmp_path, rows):
    path = tmp_path / "away.csv"
    path.write_text("client,from,to\n" + rows)
    return TraceAvailability(str(path))


def test_work_of_a_client_that_leaves_is_lost(simulate, tmp_path):
    simulation = simulate(latency=SLOW, availability=away(tmp_path, "5,2,4\n"))
    seen = watch(simulation)
    outstanding = []
    for _ in range(9):
        simulation.run_round()
        outstanding.append(0 in simulation.server.outstanding)
    # Asked at 0, gone in 2 and 3, asked again at 4: what it began at 0 never arrives.
    assert [(r, b) for r, c, b in seen if c == 5] == [(7, 4)]
    assert [(r, b) for r, c, b in seen if c == 0] == [(3, 0), (7, 4)]
    # The server waits for it until it asks again, and not longer.
    assert outstanding == [True] * 4 + [False] * 5


def test_leaving_in_the_very_round_of_arrival_loses_the_work(simulate, tmp_path):
    simulation = simulate(latency=SLOW, availability=away(tmp_path, "5,3,4\n"))
    seen = watch(simulation)
    run(simulation, 9)
    assert [(r, b) for r, c, b in seen if c == 5] == [(7, 4)]


def test_with_overlap_all_jobs_of_a_client_that_leaves_are_lost(simulate, tmp_path):
    simulation = simulate(latency=SLOW, overlap=True, availability=away(tmp_path, "5,4,6\n"))
    seen = watch(simulation)
    run(simulation, 12)
    assert [(r, b) for r, c, b in seen if c == 5] == [(3, 0), (9, 6), (10, 7), (11, 8)]
    assert simulation.server.outstanding == [9, 10, 11]


def test_everybody_gone_is_a_round_without_updates(simulate, tmp_path):
    rows = "".join(f"{c},1,3\n" for c in range(8))
    simulation = simulate(availability=away(tmp_path, rows))
    versions = trajectory(simulation, 4)
    assert_identical(versions[1:3], versions[2:4])
    assert not torch.equal(versions[0]["0.weight"], versions[1]["0.weight"])
    assert not torch.equal(versions[3]["0.weight"], versions[4]["0.weight"])


# --- oracle figures ----------------------------------------------------------------------


def test_oracle_figures_change_nothing(simulate):
    plain = simulate("first_order", latency=SLOW, overlap=True, local=MINI)
    judged = simulate("first_order", latency=SLOW, overlap=True, local=MINI, with_oracle=True)
    a, b = run(plain, 8), run(judged, 8)
    assert_identical([plain.server.params], [judged.server.params])
    assert not any(key.startswith("oracle/") for record in a for key in record)
    extra = {"oracle/stale_cosine", "oracle/compensated_cosine"}
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
    assert record["oracle/stale_cosine"] == pytest.approx(wanted, abs=1e-6)
    assert record["oracle/compensated_cosine"] == pytest.approx(wanted, abs=1e-6)
    assert wanted > 0.01


def test_training_that_diverges_still_gives_records(simulate):
    simulation = simulate(
        latency=SLOW, overlap=True, local=LocalSpec(lr=1e39, epochs=2), with_oracle=True
    )
    records = run(simulation, 6)
    json.dumps(records, allow_nan=False)
    assert any(record["refused"] for record in records)


# --- evaluation --------------------------------------------------------------------------


def test_evaluate_every(simulate):
    simulation = simulate(evaluate_every=3)
    records = run(simulation, 7)
    assert [r["accuracy"] is not None for r in records] == [0, 0, 1, 0, 0, 1, 0]
    assert set(records[0]) == set(records[2])
    assert simulation.run_round(evaluate_now=True)["accuracy"] is not None


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
    assert record["accuracy"] == pytest.approx(float(right.double().mean()))
    assert record["affected_accuracy"] == pytest.approx(float(right[chosen].double().mean()))


def test_affected_classes_come_from_the_scenario_or_the_caller(simulate):
    from unstale.sim.latency import IntertwinedLatency

    latency = IntertwinedLatency(classes=(2,), clients=2, rounds=3)
    assert simulate(latency=latency).affected == (2,)
    assert simulate(latency=latency, affected=(0, 1)).affected == (0, 1)
    assert simulate(latency=latency, affected=()).run_round()["affected_accuracy"] is None


# --- memory ------------------------------------------------------------------------------


def test_memory_does_not_grow_with_rounds(simulate):
    simulation = simulate(
        clients=2, latency=ConstantLatency(5, clients=(0,)), overlap=True, evaluate_every=1000
    )
    for _ in range(300):
        record = simulation.run_round()
        assert len(simulation._models.versions) <= 5
        assert record["history"]["versions"] <= 6
        assert len(simulation._jobs) <= 5
    assert simulation._lost == []


def test_a_small_history_falls_back_and_clients_still_train_right(simulate):
    small = HistorySpec(max_versions=2)
    settings = {"latency": SLOW, "overlap": True}
    # The method cannot see the base any more, and says so.
    records = run(simulate("first_order", history=small, **settings), 8)
    assert [r["notes"].get("fallback", 0) for r in records] == [0, 0, 0, 2, 2, 2, 2, 2]
    assert all(r["history"]["versions"] <= 2 for r in records)
    # The clients hold their models themselves, so a method that needs no base is unharmed.
    capped = trajectory(simulate(history=small, **settings), 8)
    assert_identical(capped, trajectory(simulate(**settings), 8))


def test_refusals_are_counted(simulate):
    records = run(simulate(limits=Limits(max_norm=1e-6)), 2)
    assert [r["refused"] for r in records] == [{"norm": 8}, {"norm": 8}]
    assert records[-1]["arrivals"] == 0


# --- save and load -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "overlap", "history"),
    [
        ("first_order", True, None),
        ("asyn_tiers", False, None),
        ("w_pred", True, HistorySpec(memory_bytes=0)),
        ("first_order", False, HistorySpec(memory_bytes=0)),
        ("first_order", True, HistorySpec(max_versions=2, memory_bytes=0)),
    ],
)
def test_restored_in_the_middle_goes_on_identically(simulate, tmp_path, history, overlap, name):
    def make():
        return simulate(
            name,
            latency=UniformLatency(low=0, high=5),
            overlap=overlap,
            history=history,
            local=MINI,
            availability=away(tmp_path, "5,4,6\n2,3,8\n"),
            cohort=SampledCohort(size=6),
        )

    undisturbed = make()
    wanted = run(undisturbed, 14)
    found, simulation = [], make()
    for stop in (1, 5, 6, 11):
        found += run(simulation, stop - len(found))
        checkpoints = Checkpoints(tmp_path / "checkpoints")
        checkpoints.write(*simulation.to_tree())
        simulation = make()
        simulation.restore(*Checkpoints(tmp_path / "checkpoints").read())
        assert simulation.round == stop
    found += run(simulation, 14 - len(found))
    assert found == wanted
    assert_identical([simulation.server.params], [undisturbed.server.params])
    assert simulation._jobs == undisturbed._jobs
    assert simulation._lost == undisturbed._lost


def test_jobs_and_lost_work_are_saved(simulate, tmp_path):
    simulation = simulate(latency=SLOW, availability=away(tmp_path, "5,2,9\n"))
    run(simulation, 3)
    tree, versions = simulation.to_tree()
    assert tree["engine"]["jobs"] == [[3, 0, 0]]
    assert tree["engine"]["lost"] == [[3, 5, 0]]
    assert 0 in versions
    other = simulate(latency=SLOW, availability=away(tmp_path, "5,2,9\n"))
    other.restore(tree, versions)
    assert (other._jobs, other._lost) == (simulation._jobs, simulation._lost)


def test_models_on_devices_spill_where_the_history_says(simulate, tmp_path):
    folder = tmp_path / "spilled"
    simulation = simulate(
        latency=SLOW, overlap=True, history=HistorySpec(memory_bytes=0, folder=str(folder))
    )
    run(simulation, 4)
    kept = {path.parent for path in folder.glob("*/*.safetensors")}
    assert len(kept) == 2  # the server's versions, and those that clients hold


def test_every_argument_is_kept(simulate):
    simulation = simulate(evaluate_every=4, batched=True, affected=(1,), with_oracle=True)
    assert isinstance(simulation, Simulation)
    assert (simulation.evaluate_every, simulation.batched) == (4, True)
    assert (simulation.affected, simulation.with_oracle) == ((1,), True)
    assert dataclasses.is_dataclass(simulation.scenario.spec)
