"""Many threads at one server: nothing is lost and nothing counts twice."""

import threading
import time

import pytest
import torch
from torch import nn

import unstale as us


def ones(model):
    return {n: torch.ones_like(p, requires_grad=False) for n, p in model.named_parameters()}


@pytest.fixture
def model():
    model = nn.Linear(2, 1)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    return model


def test_threads_lose_nothing_and_count_nothing_twice(model):
    """Eight threads resend everything thrice while one steps."""
    server = us.Server(model, method="polynomial")
    clients, rounds, taken, arrived = 8, 30, [], []
    done = threading.Event()

    def client(name):
        for _ in range(rounds):
            version, params = server.check_out(name)
            delta = {n: torch.ones_like(p) for n, p in params.items()}
            receipts = [server.submit(us.Update(name, version, delta, 1)) for _ in range(3)]
            taken.extend([receipts[0].accepted, receipts[1].accepted, receipts[2].accepted])

    def stepper():
        while not done.is_set():
            report = server.step()
            arrived.append((report.arrivals, sum(report.refused.values())))

    workers = [threading.Thread(target=client, args=(f"c{i}",)) for i in range(clients)]
    other = threading.Thread(target=stepper)
    for thread in [*workers, other]:
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    other.join()
    last = server.step()
    arrived.append((last.arrivals, sum(last.refused.values())))
    assert len(taken) == 3 * clients * rounds
    assert sum(count for count, _ in arrived) == sum(taken)
    assert sum(refused for _, refused in arrived) == len(taken) - sum(taken)
    assert server.version == len(arrived)
    assert server.outstanding == []
    # Every step that had arrivals moved every weight by exactly one.
    moved = float(sum(count > 0 for count, _ in arrived))
    assert server.params["bias"].item() == pytest.approx(moved, rel=1e-5)


class Slow(dict):
    """A delta that takes its time, so that threads meet within one `submit`."""

    def __getitem__(self, name):
        time.sleep(0.002)
        return super().__getitem__(name)


def test_of_many_that_send_the_same_at_once_one_is_taken(model):
    server = us.Server(model)
    update = us.Update("a", 0, Slow(ones(model)), 1)
    accepted, barrier = [], threading.Barrier(4)

    def send():
        barrier.wait()
        accepted.append(server.submit(update).accepted)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(accepted) == [False, False, False, True]
    report = server.step()
    assert (report.arrivals, report.refused) == (1, {"repeated": 3})
