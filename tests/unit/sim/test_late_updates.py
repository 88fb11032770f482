"""The late updates that are foreseen are those that a simulation brings."""

import dataclasses

import pytest

from unstale.sim import Scenario, ScenarioSpec
from unstale.sim.availability import MarkovAvailability
from unstale.sim.cohort import SampledCohort
from unstale.sim.late_updates import late_updates
from unstale.sim.latency import IntertwinedLatency, NoLatency
from unstale.sim.partition import OneClass

ROUNDS = 25
SPEC = ScenarioSpec(
    partition=OneClass(clients=8, samples=10),
    latency=IntertwinedLatency(classes=(1,), clients=2, rounds=3),
)
KINDS = {
    "everybody": SPEC,
    "asked again": dataclasses.replace(SPEC, overlap=True),
    "drawn": dataclasses.replace(SPEC, cohort=SampledCohort(fast=3, slow=1)),
    "away": dataclasses.replace(SPEC, availability=MarkovAvailability(drop=0.3)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_as_in_the_simulation(kind, simulate):
    spec = KINDS[kind]
    simulation = simulate(
        partition=spec.partition,
        latency=spec.latency,
        cohort=spec.cohort,
        availability=spec.availability,
        overlap=spec.overlap,
        evaluate_every=ROUNDS,
    )
    stale = sum(simulation.run_round().stale for _ in range(ROUNDS))
    assert stale > 3
    assert late_updates(simulation.scenario, ROUNDS).total() == stale


def test_none_where_nobody_is_late(tiny):
    spec = ScenarioSpec(partition=SPEC.partition, latency=NoLatency())
    assert late_updates(Scenario(spec, tiny, 0), ROUNDS).total() == 0
