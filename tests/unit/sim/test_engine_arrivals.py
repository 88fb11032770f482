"""Which updates reach the server in which round, and what is lost with clients that leave."""

import torch
from engine_rounds import MINI, SLOW, assert_identical, away, run, trajectory, watch

from unstale.sim.cohort import SampledCohort
from unstale.sim.latency import UniformLatency

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
