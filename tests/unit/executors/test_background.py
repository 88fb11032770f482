"""Work beside the caller: in order, never in its way, and every failure is an outcome."""

import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
import time

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError, UnstaleError
from unstale.executors import WorkerError

HANGS = 600  # seconds after which a test gives up; none is expected to come near


def scaled(factor, items):
    return [factor * item for item in items]


def fails_at_seven(shared, items):
    if 7 in items:
        raise ValueError(f"seven among {items}")
    return list(items)


def dies_at_seven(shared, items):
    if 7 in items:
        os._exit(3)
    return list(items)


def too_few(shared, items):
    return []


class Gate:
    """Work that lasts until it is let go, and tells what it got."""

    def __init__(self):
        self.open, self.begun, self.seen = threading.Event(), threading.Event(), []

    def __call__(self, shared, items):
        self.begun.set()
        assert self.open.wait(HANGS)
        self.seen.append(list(items))
        return scaled(shared, items)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def background():
    with us.Background() as background:
        yield background


def test_the_caller_goes_on_and_work_is_done_in_order(background, gate):
    futures = [background.submit(gate, 10, i) for i in range(4)]
    assert gate.begun.wait(HANGS)
    assert not any(future.done() for future in futures)
    assert background.waiting == 4
    assert not background.wait(timeout=0.01)
    gate.open.set()
    assert background.wait(timeout=HANGS)
    assert [future.result(0) for future in futures] == [0, 10, 20, 30]
    assert gate.seen == [[0], [1], [2], [3]]
    assert background.waiting == 0


def test_what_goes_together_is_taken_at_once_and_spread(gate):
    executor = us.Inline(2)
    with us.Background(executor, at_once=4) as background:
        first = background.submit(gate, 1, 0)
        assert gate.begun.wait(HANGS)
        futures = [background.submit(gate, 1, i) for i in range(1, 7)]
        other = background.submit(gate, 2, 7)
        gate.open.set()
        assert background.wait(HANGS)
    assert [f.result(0) for f in (first, *futures, other)] == [0, 1, 2, 3, 4, 5, 6, 14]
    # Four at most, dealt out to two workers; what is shared decides who goes with whom.
    assert gate.seen == [[0], [1, 3], [2, 4], [5], [6], [7]]


def test_an_exception_is_the_outcome_of_that_item_alone(gate):
    with us.Background(at_once=8) as background:
        background.submit(gate, 1, 0)  # so that the others wait together
        futures = [background.submit(fails_at_seven, None, i) for i in (6, 7, 8)]
        missing = background.submit(too_few, None, 1)
        after = background.submit(scaled, 3, 3)
        gate.open.set()
        assert background.wait(HANGS)
    assert isinstance(futures[1].exception(0), ValueError)
    assert [f.result(0) for f in (futures[0], futures[2], after)] == [6, 8, 9]
    assert isinstance(missing.exception(0), UnstaleError)


class Dying(us.Inline):
    def map(self, work, shared, items):
        if any(7 in part for part in items):
            raise WorkerError("A worker process died: here")
        return super().map(work, shared, items)


def test_so_is_a_worker_that_died(gate):
    with us.Background(Dying(3)) as background:
        background.submit(gate, 1, 0)
        futures = [background.submit(scaled, 2, i) for i in (6, 7, 8)]
        gate.open.set()
        assert background.wait(HANGS)
    assert isinstance(futures[1].exception(0), WorkerError)
    assert [futures[0].result(0), futures[2].result(0)] == [12, 16]


def test_even_what_ends_a_thread_does_not_end_the_line(background):
    def leaves(shared, items):
        raise SystemExit("gone")

    bad, good = background.submit(leaves, None, 1), background.submit(scaled, 2, 1)
    assert background.wait(HANGS)
    assert isinstance(bad.exception(0), SystemExit)
    assert good.result(0) == 2


def test_closing_cancels_what_has_not_begun_and_it_can_be_used_again(background, gate):
    running, queued = (background.submit(gate, 1, i) for i in (5, 6))
    assert gate.begun.wait(HANGS)
    background.close(timeout=0.05)  # what runs waits for the gate: waited for, it would hang
    with pytest.raises(concurrent.futures.CancelledError):
        queued.result(0)
    gate.open.set()
    assert running.result(HANGS) == 5
    assert background.wait(HANGS)
    assert background.submit(scaled, 2, 4).result(HANGS) == 8
    background.close()
    background.close()


def test_one_that_is_cancelled_before_is_passed_over(background, gate):
    running, first, second = (background.submit(gate, 1, i) for i in (1, 2, 3))
    assert gate.begun.wait(HANGS)
    assert first.cancel()
    gate.open.set()
    assert background.wait(HANGS)
    assert (running.result(0), second.result(0)) == (1, 3)
    assert gate.seen == [[1], [3]]
    gate.open.clear()
    gate.begun.clear()
    last = background.submit(gate, 1, 4)
    assert gate.begun.wait(HANGS)
    alone = background.submit(gate, 1, 5)
    assert alone.cancel()
    gate.open.set()
    assert background.wait(HANGS), "nobody waits for what was cancelled"
    assert last.result(0) == 4


def threads_there(shared, items):
    return [torch.get_num_threads() for _ in items]


def test_torchs_threads_are_limited_there_and_nowhere_else():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        for given, wanted in ((None, 2), (1, 1), (3, 3)):
            with us.Background(threads=given) as background:
                assert background.submit(threads_there, None, 0).result(HANGS) == wanted
                assert torch.get_num_threads() == 4
                with concurrent.futures.ThreadPoolExecutor(1) as other:
                    found = other.submit(torch.get_num_threads).result()
                assert found == 4, "threads to come keep the caller's number"
    finally:
        torch.set_num_threads(before)


def running_threads():
    return [t for t in threading.enumerate() if t.name == "unstale-background"]


def test_no_thread_is_left_behind():
    before = len(running_threads())
    background = us.Background()
    assert background.waiting == 0
    assert background.wait(0)
    assert len(running_threads()) == before, "nothing starts before the first use"
    background.submit(scaled, 1, 1).result(HANGS)
    assert len(running_threads()) == before + 1
    del background
    gc.collect()
    deadline = time.monotonic() + HANGS
    while len(running_threads()) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(running_threads()) == before


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"at_once": 1.5}, {"max_waiting": 0}, {"executor": "ray"}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        us.Background(**wrong)


def test_processes_do_the_work_and_may_die():
    with us.Processes(workers=2, threads=1) as executor, us.Background(executor) as background:
        futures = [background.submit(dies_at_seven, None, i) for i in (1, 7, 9, 11)]
        assert background.wait(HANGS)
    assert [f.result(0) for f in (futures[0], *futures[2:])] == [1, 9, 11]
    assert isinstance(futures[1].exception(0), WorkerError)


LEAVES = """
import time, torch, unstale as us
def busy(shared, items):
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        torch.randn(50, 50) @ torch.randn(50, 50)
    return items
background = us.Background()
for i in range(10_000):
    background.submit(busy, None, i)
print("leaves")
"""


def test_a_program_ends_amid_work():
    done = subprocess.run(  # all of the work would take an hour
        [sys.executable, "-c", LEAVES], capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaves\n", "")
