"""The simulator registers its clients, so that tiers have their sizes from the start."""

import pytest
from engine_rounds import SLOW, assert_close

from unstale.params import add, weighted_mean
from unstale.sim.cohort import SampledCohort
from unstale.sim.latency import UniformLatency


def registered(simulation):
    return simulation.server.to_tree()[0]["clients"]["told"]


def test_all_clients_are_registered_with_their_latency(simulate):
    found = registered(simulate(latency=SLOW))
    assert found == {f"client-{i}": 3.0 if i in (0, 5) else 0.0 for i in range(8)}


def test_a_client_whose_latency_varies_is_registered_with_its_median(simulate):
    found = registered(simulate(latency=UniformLatency(low=0, high=4)))
    assert set(found.values()) == {2.0}


def test_without_delay_nobody_is_late(simulate):
    assert set(registered(simulate("no_delay", latency=SLOW)).values()) == {0.0}


def test_a_restored_simulation_has_its_clients_even_from_an_older_checkpoint(simulate):
    old = simulate("asyn_tiers", latency=SLOW)
    tree, versions = old.to_tree()
    del tree["server"]["clients"]
    simulation = simulate("asyn_tiers", latency=SLOW)
    simulation.restore(tree, versions)
    assert registered(simulation) == registered(old)
    simulation.run_round()


@pytest.mark.parametrize("overlap", [True, False])
def test_the_slow_tier_weighs_its_share_of_all_clients_from_its_first_arrival(simulate, overlap):
    """Two of eight clients are slow. Each round draws two fast ones and one slow one."""
    simulation = simulate(
        "asyn_tiers", latency=SLOW, overlap=overlap, cohort=SampledCohort(fast=2, slow=1)
    )
    reports, step = [], simulation.server.step

    def noted(absent):
        reports.append(step(absent))
        return reports[-1]

    simulation.server.step = noted
    slow_rounds = 0
    for _ in range(8):
        before = simulation.server.params
        simulation.run_round()
        tiers = {False: [], True: []}
        for update in reports[-1].updates:
            tiers[update.client_id in ("client-0", "client-5")].append(update.delta)
        means = {slow: weighted_mean(d, [1] * len(d)) for slow, d in tiers.items() if d}
        delta = weighted_mean([*means.values()], [2 if slow else 6 for slow in means])
        assert_close([simulation.server.params], [add(before, delta)])
        slow_rounds += True in means
    assert slow_rounds >= (5 if overlap else 1)
