"""The same numbers whichever executor is used, and what happens when workers fail."""

import os
import pickle
import sys
import threading

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError, UnknownNameError, UnstaleError
from unstale.executors import WorkerError
from unstale.executors.worker import Worker, pack, result_of, threads_of
from unstale.methods import Stateless
from unstale.methods.conversion import ConvertAll
from unstale.seeding import generator
from unstale.updates import TrainingTools

SETTINGS = ConvertAll(
    us.Inversion(sparsity=0, iterations=5, warm_iterations=3, history=2, max_loss=10.0),
    calibration=us.Calibration(enabled=False),
)


def scaled(factor, item):
    return factor * item


def fails(shared, item):
    if item == "unknown":
        raise UnknownNameError("A thing", "x", ["y"])
    raise ConfigError(f"{shared} {item}")


def dies(shared, item):
    os._exit(3)


def threads(shared, item):
    return torch.get_num_threads()


def converted(executor, rounds=2):
    """Convert five updates of four clients in each round; return what a server would use.

    A fifth client answers in the first round only, and is stood in for afterwards.
    """
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    rng = generator(0, "weights")
    weights = [
        {n: 0.5 * torch.randn(p.shape, generator=rng) for n, p in model.named_parameters()}
        for _ in range(8)
    ]
    local = us.LocalSpec(lr=0.2, steps=3)
    state, found = SETTINGS.init(), []
    for now in range(6, 6 + rounds):
        updates = []
        late = [("a", 1), ("b", 2), ("c", 3), ("c", 4), ("d", 5), ("e", 5)]
        late, absent = (late, ()) if now == 6 else (late[:-1], ("e",))
        for client, base in late:
            x = torch.rand(10, 4, generator=generator(0, client))
            y = torch.full((10,), ord(client) % 3)
            delta = us.local_update(model, weights[base + now - 6], x, y, local)
            updates.append(us.Update(client, base + now - 6, delta, 10))
        view = us.ServerView(
            now,
            weights[now],
            dict(enumerate(weights)).get,
            local,
            generator(0, "server", now),
            frozenset(range(8)),
            TrainingTools(model, us.InputSpec((4,), 3, 0.0, 1.0), executor),
            absent,
        )
        outcome = SETTINGS.apply(updates, state, view)
        state = outcome.state
        kinds = [n.kind for n in outcome.notes]
        assert kinds == ["converted"] * len(late) + ["stood_in"] * len(absent)
        found += [u.delta for u in outcome.updates]
        # Whoever changes the model's own weights meanwhile changes nothing.
        with torch.no_grad():
            model[0].weight.add_(1.0)
    return found


def assert_same(one, other, **tolerance):
    for a, b in zip(one, other, strict=True):
        for name in a:
            torch.testing.assert_close(a[name], b[name], **tolerance)


@pytest.fixture(scope="module")
def two_processes():
    with us.Processes(workers=2, threads=1) as executor:
        yield executor


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_splitting_changes_nothing_beyond_rounding(workers):
    assert_same(converted(us.Inline(workers)), converted(None), rtol=1e-3, atol=1e-4)


def test_processes_give_the_same_numbers(two_processes):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        wanted = converted(us.Inline(2))
    finally:
        torch.set_num_threads(before)
    assert_same(converted(two_processes), wanted, rtol=0, atol=0)


def test_results_and_errors_come_back_in_order(two_processes):
    assert two_processes.map(scaled, 2, [1, 2, 3, 4]) == [2, 4, 6, 8]
    assert two_processes.map(scaled, 2, []) == []
    with pytest.raises(ConfigError, match="2 1"):
        two_processes.map(fails, 2, [1, 1])
    with pytest.raises(UnstaleError, match="UnknownNameError: A thing should be one of"):
        two_processes.map(fails, 2, ["unknown"])
    assert two_processes.map(threads, 2, [0]) == [1]


def test_a_worker_that_dies_is_an_outcome_and_the_next_round_goes_on():
    with us.Processes(workers=1, threads=2) as executor:
        with pytest.raises(WorkerError, match="died"):
            executor.map(dies, 0, [1])
        assert executor.map(scaled, 2, [1]) == [2]
        assert executor.map(threads, 2, [1]) == [2]
        assert executor.map(scaled, 3, [1]) == [3], "what is shared may change"


class Broken(us.Inline):
    def map(self, work, shared, items):
        raise WorkerError("A worker process died: here")


def test_lost_workers_leave_the_updates_as_they_came():
    params = {"weight": torch.zeros(2, 2), "bias": torch.zeros(2)}
    update = us.Update("a", 0, {n: torch.ones_like(p) for n, p in params.items()}, 4)
    view = us.ServerView(
        1, params, {0: params}.get, us.LocalSpec(), generator(0, "x"), frozenset({0, 1}),
        TrainingTools(nn.Linear(2, 2), us.InputSpec((2,), 2), Broken()),
    )  # fmt: skip
    outcome = SETTINGS.apply([update], SETTINGS.init(), view)
    assert outcome.updates == (update,)
    (note,) = outcome.notes
    assert (note.kind, note.detail["did"]) == ("fallback", "keep")
    assert "died" in note.detail["reason"]


def test_a_server_hands_its_executor_on(tmp_path):
    executor = us.Inline(3)
    model = nn.Linear(2, 2)
    server = us.Server(model, executor=executor)
    assert server.executor is executor
    server.save(tmp_path)
    assert us.Server.load(tmp_path, model).executor is None
    assert us.Server.load(tmp_path, model, executor=executor).executor is executor
    seen = []

    class Looks(Stateless):
        def apply(self, updates, state, view):
            seen.append(view.tools.executor)
            return us.Outcome(tuple(updates), state)

    us.Server(model, compensator=Looks(), executor=executor).step()
    assert seen == [executor]


def test_what_only_this_process_has_is_refused():
    with pytest.raises(ConfigError, match="module that they can import"):
        pack(threading.Lock())
    with pytest.raises(ConfigError, match="defined in a module that they can import"):
        us.Processes(1).map(lambda shared, item: item, 0, [1])


@pytest.mark.parametrize("kind", [us.Inline, us.Processes, us.OnRay])
def test_each_is_an_executor_and_checks_its_settings(kind):
    executor = kind(workers=3)
    assert isinstance(executor, us.Executor)
    assert executor.workers == 3
    executor.close()
    for wrong in (0, -1, 1.5):
        with pytest.raises(ConfigError, match="workers"):
            kind(workers=wrong)


def test_threads_are_shared_out():
    assert threads_of(10_000, None) == 1
    assert threads_of(1, None) >= threads_of(2, None) >= 1
    assert threads_of(2, 5) == 5


def test_a_worker_reports_what_cannot_be_unpacked():
    before = torch.get_num_threads()
    try:
        worker = Worker(b"not a pickle", before)
    finally:
        torch.set_num_threads(before)
    with pytest.raises(pickle.UnpicklingError):
        result_of(worker.do(pack((scaled, 1))))


def test_ray_that_is_missing_is_said_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'unstale\[ray\]'"):
        us.OnRay().map(scaled, 1, [1])
