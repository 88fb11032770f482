"""Clients that protect their updates: what the server gets, and what is counted."""

import torch
from engine_rounds import MINI, SLOW, assert_identical, run, trajectory

import unstale as us
from unstale.seeding import generator
from unstale.sim import Simulation

PAPER = us.Protection(sparsity=0.9, noise_variance=1e-3)
PRIVATE = us.Protection(clip=0.1, noise_multiplier=2.0)


def protected(simulation, protection):
    simulation.protection = protection
    return simulation


def submitted(simulation, rounds):
    """The updates that reach the server."""
    seen, submit = [], simulation.server.submit
    simulation.server.submit = lambda update: (seen.append(update), submit(update))[1]
    for _ in range(rounds):
        simulation.run_round()
    return seen


def test_the_server_sees_protected_updates_only(simulate):
    plain = submitted(simulate(latency=SLOW), 1)
    found = submitted(protected(simulate(latency=SLOW), PAPER), 1)
    assert [u.key for u in found] == [u.key for u in plain]
    for update, raw in zip(found, plain, strict=True):
        number = int(update.client_id.removeprefix("client-"))
        noise = generator(0, "protection", number, update.base_version)
        wanted = us.protect(raw.delta, PAPER, noise)
        assert all(torch.equal(update.delta[name], wanted[name]) for name in wanted)
        assert update.num_examples == raw.num_examples


def test_without_protection_nothing_changes(simulate):
    settings = {"latency": SLOW, "overlap": True}
    off = protected(simulate(**settings), us.Protection())
    assert_identical(trajectory(off, 4), trajectory(simulate(**settings), 4))


def test_the_settings_reach_the_simulation(simulate):
    made = simulate()
    again = Simulation(made.server, made.model, made.scenario, protection=PAPER)
    assert again.protection == PAPER
    assert made.protection == us.Protection()


def test_updates_are_counted_by_client_where_they_are_private(simulate):
    records = run(protected(simulate(latency=SLOW), PRIVATE), 5)
    assert [r["most_sent"] for r in records] == [1, 2, 3, 4, 5]
    assert all("most_sent" not in r for r in run(protected(simulate(), PAPER), 2))


def test_a_restored_simulation_goes_on_counting_and_drawing(simulate, tmp_path):
    settings = {"local": MINI, "latency": SLOW}
    whole = run(protected(simulate(**settings), PRIVATE), 6)
    first = protected(simulate(**settings), PRIVATE)
    run(first, 3)
    second = protected(simulate(**settings), PRIVATE)
    second.restore(*first.to_tree())
    assert run(second, 3) == whole[3:]


def test_methods_of_one_seed_get_the_same_noise(simulate):
    one = submitted(protected(simulate("unweighted"), PRIVATE), 1)
    other = submitted(protected(simulate("weighted"), PRIVATE), 1)
    for a, b in zip(one, other, strict=True):
        assert all(torch.equal(a.delta[name], b.delta[name]) for name in a.delta)
