"""Who is absent in a round, how often each client takes part, and who is stood in for."""

from collections import Counter

import pytest
from engine_rounds import (
    CONVERT,
    MINI,
    SLOW,
    assert_close,
    assert_identical,
    away,
    run,
    trajectory,
    watch,
    watch_draws,
)

from unstale.methods import method
from unstale.params import add, params_of, weighted_mean
from unstale.sim.availability import MarkovAvailability
from unstale.sim.cohort import SampledCohort
from unstale.sim.latency import UniformLatency
from unstale.training.local import local_update

SAMPLED = SampledCohort(fast=3, slow=1)
ROUNDS = 24


def drawn_without_delay(simulate, rounds=ROUNDS, **scenario):
    simulation = simulate("no_delay", **scenario)
    seen = watch_draws(simulation)
    run(simulation, rounds)
    assert all(absent == [] for _, absent in seen)
    return [asked for asked, _ in seen]


# --- the draw ----------------------------------------------------------------------------


@pytest.mark.parametrize("cohort", [SAMPLED, SampledCohort(size=3)], ids=["both", "size"])
@pytest.mark.parametrize("latency", [SLOW, UniformLatency(low=1, high=6)], ids=["few", "all"])
def test_a_round_draws_whom_it_would_draw_without_delay(simulate, latency, cohort):
    wanted = drawn_without_delay(simulate, latency=latency, cohort=cohort)
    simulation = simulate(latency=latency, cohort=cohort, overlap=False)
    seen = watch_draws(simulation)
    run(simulation, ROUNDS)
    assert [sorted([*asked, *absent]) for asked, absent in seen] == wanted
    assert not any({*asked} & {*absent} for asked, absent in seen)
    assert any(absent for _, absent in seen)


def test_a_slow_client_takes_part_as_often_as_without_delay(simulate):
    draws = Counter(
        client
        for asked in drawn_without_delay(simulate, latency=SLOW, cohort=SAMPLED)
        for client in asked
    )
    simulation = simulate(latency=SLOW, cohort=SAMPLED, overlap=False)
    seen = watch_draws(simulation)
    run(simulation, ROUNDS)
    asked = Counter(client for clients, _ in seen for client in clients)
    absent = Counter(client for _, clients in seen for client in clients)
    for client in (0, 5):
        assert asked[client] + absent[client] == draws[client]
        assert asked[client] >= 2
        assert absent[client] >= 2
    assert {*absent} == {0, 5}, "fast clients are idle again in every round"


def test_nobody_takes_the_place_of_an_absent_client(simulate):
    simulation = simulate(latency=SLOW, cohort=SampledCohort(fast=3, slow=2), overlap=False)
    seen = watch_draws(simulation)
    run(simulation, 4)
    assert [absent for _, absent in seen] == [[], [0, 5], [0, 5], [0, 5]]
    assert [len(asked) for asked, _ in seen] == [5, 3, 3, 3]


def test_a_client_is_absent_while_it_works_and_when_asked_anew_but_not_when_it_answers(simulate):
    simulation = simulate(latency=SLOW, overlap=False)
    arrivals = watch(simulation)
    records = run(simulation, 9)
    # Asked in 0, 4 and 8; answers in 3 and 7, rounds that have drawn it: so it is owed a turn.
    assert [(r, b) for r, c, b in arrivals if c == 5] == [(3, 0), (7, 4)]
    assert [record.get("absent", 0) for record in records] == [0, 2, 2, 0, 2, 2, 2, 0, 2]


@pytest.mark.parametrize("latency", [SLOW, UniformLatency(low=0, high=6)], ids=["few", "all"])
@pytest.mark.parametrize("cohort", [None, SAMPLED, SampledCohort(size=5)], ids=["all", "few", "5"])
def test_from_its_first_answer_on_a_client_takes_part_as_often_as_it_is_drawn(
    simulate, latency, cohort
):
    """At any time, it is one turn behind at most: that of the work that it has under way."""
    scenario = {"latency": latency, **({} if cohort is None else {"cohort": cohort})}
    simulation = simulate("memory", overlap=False, **scenario)
    seen, arrivals = watch_draws(simulation), watch(simulation)
    records = run(simulation, 2 * ROUNDS)
    came = [{c for r, c, _ in arrivals if r == now} for now in range(2 * ROUNDS)]
    made = [{int(s["client"][-1]) for s in record.get("stand_ins", [])} for record in records]
    for client in range(8):
        if not any(client in some for some in came):
            continue
        first = next(now for now, some in enumerate(came) if client in some)
        behind = int(any(client in side for side in seen[first]) and client not in seen[first][0])
        for now in range(first + 1, 2 * ROUNDS):
            behind += sum(client in side for side in seen[now])
            behind -= (client in came[now]) + (client in made[now])
            assert behind in (0, 1)


@pytest.mark.parametrize("latency", [SLOW, UniformLatency(low=1, high=6)], ids=["few", "all"])
def test_with_overlap_nobody_is_absent(simulate, latency):
    simulation = simulate(latency=latency, cohort=SAMPLED, overlap=True)
    seen = watch_draws(simulation)
    records = run(simulation, ROUNDS)
    assert all(absent == [] for _, absent in seen)
    assert all(record.get("absent", 0) == 0 for record in records)


@pytest.mark.parametrize("overlap", [False, True])
def test_clients_that_are_away_are_absent(simulate, tmp_path, overlap):
    simulation = simulate(overlap=overlap, availability=away(tmp_path, "5,2,4\n2,3,5\n"))
    seen = watch_draws(simulation)
    records = run(simulation, 6)
    assert [absent for _, absent in seen] == [[], [], [5], [2, 5], [2], []]
    assert [record.get("absent", 0) for record in records] == [0, 0, 1, 2, 1, 0]


def test_who_comes_and_goes_is_drawn_all_the_same(simulate):
    wanted = drawn_without_delay(simulate, cohort=SAMPLED, latency=SLOW)
    simulation = simulate(
        cohort=SAMPLED, latency=SLOW, overlap=False, availability=MarkovAvailability(drop=0.3)
    )
    seen = watch_draws(simulation)
    run(simulation, ROUNDS)
    assert [sorted([*asked, *absent]) for asked, absent in seen] == wanted
    assert {c for _, absent in seen for c in absent} > {0, 5}


def test_methods_meet_the_same_absences(simulate):
    courses = []
    for name in ("unweighted", "memory", method("convert", **CONVERT)):
        simulation = simulate(name, latency=SLOW, cohort=SAMPLED, overlap=False, local=MINI)
        courses.append((watch(simulation), watch_draws(simulation)))
        run(simulation, ROUNDS)
    assert all(course == courses[0] for course in courses)


# --- standing in -------------------------------------------------------------------------


def test_memory_is_the_mean_of_everybodys_newest_update(simulate):
    """By hand: slow clients are asked in 0, 4 and 8, and answer in 3 and 7."""
    simulation = simulate("memory", latency=SLOW, overlap=False)
    scenario, local = simulation.scenario, simulation.server.local
    x, y = scenario.data.x_train, scenario.data.y_train
    versions = [params_of(simulation.model)]
    # The version that the slow ones' update is from, by round.
    newest = {3: 0, 4: 0, 5: 0, 6: 0, 7: 4, 8: 4}
    for now in range(9):
        starts = {c: newest.get(now) if c in (0, 5) else now for c in range(8)}
        deltas = []
        for client, start in starts.items():
            if start is not None:
                index = scenario.examples(client, start)
                args = (versions[start], x[index], y[index], local)
                deltas.append(local_update(simulation.model, *args))
        versions.append(add(versions[-1], weighted_mean(deltas, [10] * len(deltas))))
    assert_close(trajectory(simulation, 9), versions)


def test_a_client_that_is_away_is_stood_in_for(simulate, tmp_path):
    simulation = simulate("memory", availability=away(tmp_path, "5,2,4\n"))
    records = run(simulation, 5)
    wanted = [[], [], [("client-5", 1)], [("client-5", 2)], []]
    found = [[(s["client"], s["age"]) for s in r.get("stand_ins", [])] for r in records]
    assert found == wanted
    assert [record["arrivals"] for record in records] == [8, 8, 7, 7, 8]


def test_slow_clients_are_stood_in_for_from_their_first_answer_on(simulate):
    simulation = simulate(method("convert", **CONVERT), latency=SLOW, overlap=False)
    records = run(simulation, 12)
    found = [[(s["client"], s["age"]) for s in r.get("stand_ins", [])] for r in records]
    both = ("client-0", "client-5")
    # Answers in 3 and 7 (from 0 and 4); asked anew in 4 and 8, and at work in 5, 6, 9 and 10.
    wanted = {4: 4, 5: 5, 6: 6, 8: 4, 9: 5, 10: 6}
    assert found == [[(c, wanted[r]) for c in both] if r in wanted else [] for r in range(12)]
    # Checked against the own updates of versions 4 and 8, four versions after the known ones; by
    # then the first surrogate, which was of version 0, would be eight versions old.
    ages = [[c["age"] for c in r.get("checked", [])] for r in records]
    assert ages == [{7: [4, 4], 11: [8, 4, 8, 4]}.get(r, []) for r in range(12)]
    assert [r["stale"] for r in records] == [2 if r in (3, 7, 11) else 0 for r in range(12)]


def test_with_overlap_standing_in_changes_no_bit(simulate):
    settings = {"latency": SLOW, "overlap": True, "local": MINI, "cohort": SAMPLED}
    for on, off in (
        (method("convert", **CONVERT), method("convert", **CONVERT, stand_in=False)),
        ("memory", "unweighted"),
    ):
        first, second = simulate(on, **settings), simulate(off, **settings)
        assert run(first, 15) == run(second, 15)
        assert_identical([first.server.params], [second.server.params])


def test_without_overlap_it_changes_the_course(simulate):
    """The test above has teeth."""
    settings = {"latency": SLOW, "overlap": False, "local": MINI}
    first = simulate(method("convert", **CONVERT), **settings)
    second = simulate(method("convert", **CONVERT, stand_in=False), **settings)
    one, two = run(first, 8), run(second, 8)
    assert one[:4] == two[:4]
    assert [r.get("stand_ins", []) for r in two] == [[]] * 8
    assert any((first.server.params[n] != p).any() for n, p in second.server.params.items())
    assert [r.get("absent", 0) for r in one] == [r.get("absent", 0) for r in two]
