"""Attackers: what they send, who they are, and that honest clients and metrics stay as they are."""

import pytest
import torch
from engine_rounds import assert_identical, run

from unstale import Protection
from unstale.errors import ConfigError
from unstale.experiment import load_experiment
from unstale.experiment.config import parse
from unstale.params import cosine_distance, flatten, norm
from unstale.seeding import generator
from unstale.server.checkpoint import Checkpoints
from unstale.sim import Scenario, ScenarioSpec
from unstale.sim.attackers import (
    KINDS,
    NoAttackers,
    Random,
    Replayed,
    Scaled,
    SignFlipped,
    random_of_norm,
    scaled,
    sign_flipped,
)
from unstale.sim.latency import ConstantLatency, NoLatency
from unstale.sim.partition import OneClass

DELTA = {"a": torch.tensor([[1.0, -2.0]]), "b": torch.tensor([2.0])}


def submitted(simulation, rounds=3):
    """What the server is given, by client and round."""
    found = {}
    original = simulation.server.submit

    def submit(update):
        found[update.client_id, simulation.round] = update
        return original(update)

    simulation.server.submit = submit
    run(simulation, rounds)
    return found


def test_what_is_sent():
    assert scaled(DELTA, 10)["a"].tolist() == [[10.0, -20.0]]
    assert sign_flipped(DELTA, 0.5)["b"].tolist() == [-1.0]
    noise = random_of_norm(DELTA, 4.0, generator(0, "x"))
    assert norm(noise) == pytest.approx(12.0, rel=1e-6)
    assert {name: p.shape for name, p in noise.items()} == {n: p.shape for n, p in DELTA.items()}
    assert all(p.dtype == torch.float32 for p in noise.values())
    again, other = (random_of_norm(DELTA, 4.0, generator(0, name)) for name in ("x", "y"))
    assert cosine_distance(noise, again) == pytest.approx(0, abs=1e-12)
    assert cosine_distance(noise, other) > 0.01
    assert random_of_norm({"a": torch.zeros(2)}, 4.0, generator(0, "x"))["a"].tolist() == [0, 0]
    first = {"a": torch.tensor([[5.0, 5.0]]), "b": torch.tensor([0.0])}
    assert Replayed(factor=2).send(DELTA, first, generator(0)) == {
        "a": pytest.approx(torch.tensor([[10.0, 10.0]])),
        "b": pytest.approx(torch.tensor([0.0])),
    }


def test_attackers_are_drawn_from_fast_clients_and_the_same_for_every_kind():
    fast = range(3, 30)
    drawn = {kind: KINDS[kind](share=0.1).draw(30, fast, 5) for kind in KINDS if kind != "none"}
    assert len(set(drawn.values())) == 1
    (attackers,) = set(drawn.values())
    assert len(attackers) == 3
    assert attackers <= {*fast}
    assert Scaled(share=0.1).draw(30, fast, 6) != attackers
    assert Scaled(share=0.9).draw(30, fast, 5) == {*fast}
    assert Scaled(clients=(0, 7)).draw(30, fast, 5) == {0, 7}
    assert NoAttackers().draw(30, fast, 5) == frozenset()


@pytest.mark.parametrize(
    ("attack", "factor"),
    [(Scaled(clients=(1,), factor=3), 3.0), (SignFlipped(clients=(1,), factor=2), -2.0)],
)
def test_only_attackers_send_something_else(simulate, attack, factor):
    honest = submitted(simulate(clients=4), 1)
    found = submitted(simulate(clients=4, attackers=attack), 1)
    assert found.keys() == honest.keys()
    for key, update in found.items():
        by = factor if key == ("client-1", 0) else 1.0
        assert_identical([update.delta], [{n: by * p for n, p in honest[key].delta.items()}])
        assert (update.base_version, update.num_examples) == (0, 10)


def test_attackers_do_not_protect_what_they_send(simulate):
    simulation = simulate(clients=4, attackers=Scaled(clients=(1,), factor=3))
    open_ = submitted(simulate(clients=4, attackers=Scaled(clients=(1,), factor=3)), 1)
    simulation.protection = Protection(sparsity=0.9)
    found = submitted(simulation, 1)
    assert_identical([found["client-1", 0].delta], [open_["client-1", 0].delta])
    zeros = int((flatten(found["client-2", 0].delta) == 0).sum())
    assert zeros > int((flatten(open_["client-2", 0].delta) == 0).sum())


def test_replays_are_the_first_update_with_a_new_version(simulate):
    name = "client-1"
    found = submitted(simulate(clients=4, attackers=Replayed(clients=(1,))), 3)
    assert [found[name, t].base_version for t in range(3)] == [0, 1, 2]
    assert_identical([found[name, 2].delta], [found[name, 0].delta])
    other = "client-2"
    assert cosine_distance(found[other, 2].delta, found[other, 0].delta) > 0


@pytest.mark.parametrize("attack", [Replayed(clients=(1, 2), factor=2), Random(share=0.25)])
def test_a_restored_attack_goes_on_identically(simulate, tmp_path, attack):
    def make():
        return simulate(attackers=attack, latency=ConstantLatency(2, clients=(2,)))

    wanted = make()
    lines = run(wanted, 6)
    simulation = make()
    found = run(simulation, 3)
    Checkpoints(tmp_path).write(*simulation.to_tree())
    simulation = make()
    simulation.restore(*Checkpoints(tmp_path).read())
    assert found + run(simulation, 3) == lines
    assert_identical([simulation.server.params], [wanted.server.params])


def test_the_oracle_judges_honest_clients_only(simulate):
    settings = {"latency": ConstantLatency(2, clients=(0, 1)), "with_oracle": True}
    lines = run(simulate(attackers=SignFlipped(clients=(0, 1), factor=9), **settings), 4)
    assert not any(key.startswith("oracle/stale") for line in lines for key in line if line[key])
    lines = run(simulate(attackers=SignFlipped(clients=(0,), factor=9), **settings), 3)
    # Client 1 alone: an honest late update is near the truth, a flipped one is not.
    assert 0 < lines[2]["oracle/stale_cosine"] < 1


def test_scenarios_say_who_attacks(tiny):
    split = {"partition": OneClass(clients=8, samples=10), "latency": NoLatency()}
    spec = ScenarioSpec(**split, attackers=Scaled(clients=(3,)))
    clients = Scenario(spec, tiny, 0).describe()["clients"]
    assert [client.get("attacker", False) for client in clients] == [i == 3 for i in range(8)]
    honest = Scenario(ScenarioSpec(**split), tiny, 0)
    assert all("attacker" not in client for client in honest.describe()["clients"])


def test_in_an_experiment_file():
    told = ["attackers.kind=random", "attackers.share=0.2", "attackers.factor=3"]
    config = load_experiment("quickstart", overrides=told)
    assert config.scenario.attackers == Random(share=0.2, factor=3.0)
    assert parse(config.to_json()) == config
    # An experiment without attackers is written as before there were any.
    assert "attackers" not in load_experiment("quickstart").to_json()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("attackers.kind=evil", "`kind` of .attackers. should be one of"),
        ("attackers.share=2", "attackers. `share` should be from 0 to 1"),
        ("attackers.factor=0", "`factor` should be a number above 0"),
        ("attackers.clients=[1,1]", "`clients` should be different"),
        ("attackers.clients=[-1]", "`clients` should be different"),
        ("attackers.number=3", "A key of .attackers."),
    ],
)
def test_what_is_wrong_is_said(told, message):
    with pytest.raises(ConfigError, match=message):
        load_experiment("quickstart", overrides=["attackers.kind=scaled", told])


def test_too_many_attackers_are_refused_when_the_clients_are_known():
    with pytest.raises(ConfigError, match="there are 27 fast clients"):
        Scaled(share=0.95).draw(30, range(27), 0)
    with pytest.raises(ConfigError, match=r"`clients` should be from 0 to 29. Found \[30\]"):
        Scaled(clients=(0, 30)).draw(30, range(27), 0)
