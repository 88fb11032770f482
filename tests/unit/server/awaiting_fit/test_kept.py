"""Held updates are never lost and never count twice, through saves, loads and failures."""

import itertools

import pytest
import torch
from waiting_world import Gated, few, kinds, model_of, same, server_of, step, work

import unstale as us
from unstale.errors import ConfigError
from unstale.executors import WorkerError
from unstale.seeding import generator


def test_waiting_updates_survive_a_crash_and_count_once(tmp_path):
    """Saved amid their fits and loaded again: the numbers of a run without interruption."""
    ends = []
    for crash in (False, True):
        executor = Gated()
        background = us.Background(executor, threads=1)
        server = server_of(background, us.method("convert", **few(history=2)).compensator)
        first = work(server, "s")
        step(server)
        server.submit(first)
        second, other = work(server, "s"), work(server, "t")
        step(server)
        for update in (second, other):
            server.submit(update)
        assert server.awaiting_fit == [("s", 0), ("s", 1), ("t", 1)]
        if crash:
            server.save(tmp_path)
            executor.open.set()  # the dead server's fits, which nobody sees
            background.close()
            background = us.Background(threads=1)
            server = us.Server.load(tmp_path, model_of(), background=background)
            assert server.background is background
        assert server.awaiting_fit == [("s", 0), ("s", 1), ("t", 1)]
        refused = [server.submit(u).code for u in (first, second, other)]
        executor.open.set()
        reports = []
        for _ in range(3):
            assert background.wait(600)
            reports.append(step(server))
        background.close()
        told = [(sorted(r.staleness), kinds(r), kinds(r, "t"), r.awaiting_fit) for r in reports]
        assert refused == ["repeated"] * 3
        assert (server.awaiting_fit, server.outstanding) == ([], [])
        ends.append((told, server.params))
    (whole, params), (pieces, restored) = ends
    assert whole == pieces
    assert same(params, restored)
    assert [(late, waiting) for late, *_, waiting in whole] == [
        ([0, 1, 2], 1),
        ([0, 2], 0),
        ([0], 0),
    ]


def test_without_a_background_what_waited_takes_part_in_the_next_step(tmp_path, gated):
    with us.Background(gated) as background:
        server = server_of(background)
        stale = work(server, "s")
        step(server)
        server.submit(stale)
        server.save(tmp_path)
        gated.open.set()
    again = us.Server.load(tmp_path, model_of())
    assert again.awaiting_fit == []
    report = again.step()
    assert (report.arrivals, kinds(report)) == (1, [("converted", 0)])
    assert again.step().arrivals == 0
    # Without the model nothing can be prepared either; the step tells.
    with us.Background() as background:
        bare = us.Server.load(tmp_path, background=background)
        assert bare.awaiting_fit == []
        with pytest.raises(ConfigError, match="the model"):
            bare.step()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_and_nothing_counts_twice(seed, tmp_path):
    """Random rounds with saves, loads, floods and failures; every update takes part once."""
    rng = generator(seed, "story")
    dice = lambda n: int(torch.randint(n, (1,), generator=rng))  # noqa: E731

    class Moody(us.Inline):
        turn = itertools.count()

        def map(self, work, shared, items):
            if next(self.turn) % 5 == 4:
                raise WorkerError("A worker process died: often")
            return super().map(work, shared, items)

    method = us.method("convert", **few(iterations=1, warm_iterations=1)).compensator
    background = us.Background(Moody(2), max_waiting=3)
    server = server_of(background, method)
    out, sent, came = [], [], []
    for round_ in range(25):
        for client in ("s1", "s2", "t1", "t2", "f"):
            if client not in {u.client_id for u in out}:
                out.append(work(server, client))
        for update in list(out):
            if update.client_id == "f" or dice(3) == 0:
                out.remove(update)
                assert server.submit(update).accepted
                sent.append((update.client_id, update.base_version))
        if dice(5) == 0:
            server.save(tmp_path)
            background.close()
            background = us.Background(Moody(2), max_waiting=3)
            server = us.Server.load(tmp_path, model_of(), background=background)
        if dice(2):
            background.wait(600)
        report = server.step()
        came += [(u.client_id, u.base_version) for u in report.updates]
        assert len(server.awaiting_fit) == report.awaiting_fit <= 3
        assert set(server.awaiting_fit) | set(came) == set(sent), round_
    while server.awaiting_fit:
        background.wait(600)
        came += [(u.client_id, u.base_version) for u in server.step().updates]
    came += [(u.client_id, u.base_version) for u in server.step().updates]
    background.close()
    assert sorted(came) == sorted(sent)
    assert len(set(came)) == len(came)
    assert server.outstanding == sorted({u.base_version for u in out})


def test_over_processes_the_numbers_are_the_same():
    ends = []
    with us.Processes(workers=1, threads=1) as executor:
        for background in (us.Background(threads=1), us.Background(executor)):
            server = server_of(background)
            stale = work(server, "s")
            step(server)
            server.submit(stale)
            assert background.wait(120)
            assert kinds(step(server)) == [("converted", 0)]
            ends.append(server.params)
            background.close()
    assert same(*ends)
