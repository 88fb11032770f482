"""Which late updates a run will bring, without training anybody."""

from collections import Counter

from unstale.sim.scenario import Scenario


def late_updates(scenario: Scenario, rounds: int) -> Counter[int]:
    """Return how many updates of each client arrive late within so many rounds.

    Clients are asked, lose their work and answer as in `Simulation`: who is asked depends on the
    draw of each round, on latencies and on who is available, and on no weights.
    """
    found: Counter[int] = Counter()
    under_way: list[tuple[int, int, bool]] = []  # when it is due, the client, whether it is late
    for now in range(rounds):
        here = scenario.availability.available
        under_way = [job for job in under_way if here(job[1], now)]
        for client in scenario.drawn(now, {client for _, client, _ in under_way}).asked:
            late = scenario.latency.rounds(client, now)
            under_way.append((now + late, client, late > 0))
        found.update(client for due, client, late in under_way if due == now and late)
        under_way = [job for job in under_way if job[0] != now]
    return found
