"""Rounds of a small simulation: watched, compared, and worked out by hand."""

import torch

from unstale.params import add, params_of, weighted_mean
from unstale.seeding import generator
from unstale.sim.availability import TraceAvailability
from unstale.sim.latency import ConstantLatency
from unstale.training.local import LocalSpec, local_update

SLOW = ConstantLatency(3, clients=(0, 5))
# Conversion with few iterations, whatever the fit: here it is about who takes part.
CONVERT = {"max_growth": 0, "uniqueness": False}
CONVERT |= {"inversion": {"sparsity": 0, "iterations": 4, "warm_iterations": 2, "max_loss": 1e9}}
MINI = LocalSpec(lr=0.3, momentum=0.5, epochs=2, batch_size=4)


def watch(simulation):
    """Note every (round, client, base version) that reaches the server."""
    seen = []
    submit = simulation.server.submit

    def noted(update):
        receipt = submit(update)
        number = _number(update.client_id)
        seen.append((simulation.server.version, number, update.base_version))
        return receipt

    simulation.server.submit = noted
    return seen


def watch_draws(simulation):
    """Note in every round whom the engine asks and whom it reports as absent, by number."""
    seen = []
    server = simulation.server
    check_out, step = server.check_out, server.step
    asked = []

    def noted(name):
        asked.append(_number(name))
        return check_out(name)

    def stepped(absent=()):
        names = list(absent)
        seen.append((sorted(asked), sorted(map(_number, names))))
        asked.clear()
        return step(names)

    server.check_out, server.step = noted, stepped
    return seen


def _number(name):
    return int(name.removeprefix("client-"))


def run(simulation, rounds):
    """Run rounds; return their lines as JSON, without times."""
    lines = [simulation.run_round().to_json() for _ in range(rounds)]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


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


def away(tmp_path, rows):
    path = tmp_path / "away.csv"
    path.write_text("client,from,to\n" + rows)
    return TraceAvailability(str(path))
