"""Methods that stand in, killed at any moment: the run is the one that nobody disturbed."""

import json
import random

import pytest
import torch
from flwr.app import Array
from killing import Killed, killed_at
from pretend_clients import late_grid, reply
from torch import nn

import unstale as us
from unstale.flower import Cohort, Unstale
from unstale.flower.ledger import Ledger

pytestmark = pytest.mark.usefixtures("in_a_run")

NODES = tuple(range(3, 11))
ROUNDS = 12
LOCAL = us.LocalSpec(lr=0.1, epochs=2)
METHODS = {
    "memory": us.method("memory"),
    "convert": us.method("convert", inversion={"iterations": 60}, uniqueness={"enabled": False}),
}
# What differs from run to run.
APART = {"seconds", "step_seconds"}


@pytest.fixture(autouse=True)
def _no_commit_is_looked_up(monkeypatch):
    monkeypatch.setattr("unstale.flower.run_log.describe_environment", lambda *_: {})


def model():
    made = nn.Linear(2, 3)
    for parameter in made.parameters():
        nn.init.zeros_(parameter)
    return made


def trains(message):
    """A client with data of its own, so that its update can be inverted: see `LOCAL`."""
    rng = torch.Generator().manual_seed(message.metadata.dst_node_id)
    x, y = torch.rand(6, 2, generator=rng), torch.randint(3, (6,), generator=rng)
    start = message.content["arrays"].to_torch_state_dict()
    weight, bias = start["weight"], start["bias"]
    for _ in range(LOCAL.epochs):
        error = (x @ weight.T + bias).softmax(dim=1) - nn.functional.one_hot(y, 3)
        weight = weight - LOCAL.lr * error.T @ x / len(y)
        bias = bias - LOCAL.lr * error.mean(dim=0)
    return reply({"weight": Array(weight.numpy()), "bias": Array(bias.numpy())}, len(y))


def nodes():
    """Eight nodes, three of them two to four rounds late."""
    return late_grid(
        dict.fromkeys(NODES, 0.01),
        dict.fromkeys(NODES, trains),
        delay=lambda node: {5: 2, 8: 3, 9: 4}.get(node, 0),
    )


def run(folder, method, made, *, resume=False):
    """Run to the end and note the weights of each version as it is made."""
    settings = us.ServerSettings(
        method=METHODS[method],
        local=LOCAL,
        inputs=us.InputSpec(shape=(2,), classes=3),
    )
    cohort = Cohort(fraction_train=0.6, min_train_nodes=2)
    it = Unstale(model(), settings, cohort=cohort, folder=folder)

    def note(version, arrays):
        made[version] = [array.numpy().tobytes() for array in arrays.values()]

    it.start(nodes(), num_rounds=ROUNDS, resume=resume, evaluate_fn=note)


def decided(folder):
    """What the run's books say, without times and without what a restart adds."""
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["seq"] for event in lines] == list(range(len(lines))), "a gap"
    versions = [
        {**event, "updates": sorted(event["updates"]), "seq": 0, "time": 0}
        for event in lines
        if event["event"] == "version"
    ]
    accepted = [(e["node"], e["base_version"]) for e in lines if e["event"] == "accepted"]
    assert len(accepted) == len(set(accepted)), "accepted twice"
    taken = [tuple(update) for event in versions for update in event["updates"]]
    assert len(taken) == len(set(taken)), "counted twice"
    assert set(taken) <= set(accepted)
    assert not any(event["event"] == "lost" for event in lines)
    (path,) = (folder / "rounds").rglob("seed-*.jsonl")
    rounds = [_without_times(json.loads(line)) for line in path.read_text().splitlines()]
    return {"versions": versions, "accepted": sorted(accepted), "rounds": rounds}


def _without_times(line):
    return {
        key: [_without_times(one) for one in value] if key == "converted" else value
        for key, value in line.items()
        if key not in APART
    }


def state_of(folder):
    """The server's state as the last checkpoint has it: what methods remember included."""
    tree = Ledger(folder).restore().server[0]
    return {name: tree[name] for name in ("version", "params", "compensator", "tickets")}


def assert_same(one, other):
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


@pytest.fixture(params=METHODS)
def whole(request, tmp_path):
    """A run that nobody disturbs: its method, folder, weights, and changes of the disk."""
    made = {}
    with killed_at(None) as calls:
        run(tmp_path / "whole", request.param, made)
    events = decided(tmp_path / "whole")["versions"]
    stood_in = [client for event in events for client in event["stand_ins"]]
    assert len({*stood_in}) > 1
    return request.param, tmp_path / "whole", made, calls[0]


def test_killed_at_ten_random_moments_each_of_ten_runs_is_as_if_undisturbed(whole, tmp_path):
    method, undisturbed, made, calls = whole
    rng = random.Random(20)
    for number in sorted(rng.sample(range(1, calls + 1), 10)):
        folder, again = tmp_path / str(number), {}
        with killed_at(number, half=rng.random() < 0.5), pytest.raises(Killed):
            run(folder, method, again)
        with killed_at(None):
            run(folder, method, again, resume=True)
            assert decided(folder) == decided(undisturbed), number
            assert again == made, number
            assert_same(state_of(folder), state_of(undisturbed))


def test_one_run_killed_ten_times_is_as_if_undisturbed(whole, tmp_path):
    method, undisturbed, made, calls = whole
    rng, folder, again, crashes = random.Random(21), tmp_path / "run", {}, 0
    while crashes < 10:
        try:
            with killed_at(rng.randint(1, calls // 6), half=rng.random() < 0.5):
                run(folder, method, again, resume=True)
            break
        except Killed:
            crashes += 1
    assert crashes >= 5
    with killed_at(None):
        run(folder, method, again, resume=True)
        assert decided(folder) == decided(undisturbed)
        assert again == made
        assert_same(state_of(folder), state_of(undisturbed))
