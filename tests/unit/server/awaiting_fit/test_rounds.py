"""A server that converts beside its rounds: nobody waits, and failures are outcomes."""

import dataclasses

import pytest
import torch
from waiting_world import (
    FEW,
    INPUTS,
    LOCAL,
    QUICK,
    few,
    kinds,
    model_of,
    same,
    server_of,
    step,
    work,
)

import unstale as us
from unstale.errors import ConfigError
from unstale.executors import WorkerError
from unstale.inversion import convert_many
from unstale.methods import Stateless
from unstale.methods.conversion import ConvertAll
from unstale.server.history import History


def test_rounds_go_on_and_it_joins_when_it_is_ready(gated):
    with us.Background(gated) as background:
        server = server_of(background)
        stale = work(server, "s")
        for _ in range(2):
            step(server)
        assert server.submit(stale).accepted
        assert server.submit(stale).code == "repeated"
        assert server.awaiting_fit == [("s", 0)]
        assert server.outstanding == []
        for _ in range(3):  # nobody waits for it
            report = step(server)
            assert (report.awaiting_fit, report.arrivals) == (1, 1)
            assert report.to_json()["awaiting_fit"] == 1
        assert server.weights_of(0) is not None, "its base is kept while it waits"
        assert server.weights_of(2) is None
        gated.open.set()
        assert background.wait(600)
        now, current = server.version, server.params
        report = step(server)
    assert (report.awaiting_fit, sorted(report.staleness)) == (0, [0, now])
    assert kinds(report) == [("converted", 0)]
    assert server.awaiting_fit == []
    assert server.weights_of(0) is None
    # Fitted as at version 2, when it came, and converted to the model of the round it joined.
    (request,) = gated.seen
    rest = {"local": LOCAL, "inputs": INPUTS, "settings": FEW.inversion}
    wanted = convert_many(server.model, [request], current=current, **rest)[0]
    used = {u.client_id: u for u in report.updates}["s"]
    assert same(dict(used.delta), dict(wanted.delta)), "estimates are used as they are here"
    assert kinds(step(server)) == [], "once"


def test_what_is_ready_by_the_next_step_gives_the_numbers_of_a_conversion_in_it():
    ends = []
    for background in (None, us.Background(threads=1)):
        server = server_of(background, us.method("convert", **few()).compensator)
        lines = []
        for _ in range(3):
            stale = [work(server, c) for c in ("s1", "s2")]
            for _ in range(2):
                lines.append(step(server).to_json())
            for update in stale:
                server.submit(update)
                if background is not None:
                    assert background.wait(600)
            assert len(server.awaiting_fit) == (2 if background else 0)
        lines.append(step(server).to_json())
        for line in lines:
            line.pop("seconds")
            assert line.pop("awaiting_fit", None) == (0 if background else None)
        ends.append((server.params, lines))
        if background is not None:
            background.close()
    assert same(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]
    assert sum(line["conversions"] for line in ends[0][1]) == 6


def test_without_a_background_nothing_is_different():
    server = server_of(None)
    stale = work(server, "s")
    step(server)
    server.submit(stale)
    assert server.awaiting_fit == []
    assert server.background is None
    report = step(server)
    assert kinds(report) == [("converted", 0)]
    assert report.awaiting_fit is None
    assert "awaiting_fit" not in report.to_json()


def test_only_what_the_method_fits_waits(gated):
    with us.Background(gated) as background:
        plain = us.Server(model_of(), method="first_order", background=background)
        stale = work(plain, "s")
        step(plain)
        plain.submit(stale)
        assert plain.awaiting_fit == []
        assert step(plain).awaiting_fit == 0
        unique = server_of(background, us.only_unique(FEW, threshold=2.0))
        special, *fast = (work(unique, client) for client in ("s", "f", "h"))
        unique.check_out("g")
        common = dataclasses.replace(fast[0], client_id="g")
        for update in fast:
            unique.submit(update)
        unique.step()
        for update in (common, special):
            unique.submit(update)
        assert unique.awaiting_fit == [("s", 0)]
        assert kinds(unique.step(), "g") == [("kept", 0)]
        gated.open.set()


def test_of_each_client_one_is_fitted_at_a_time_and_starts_from_the_one_before(gated):
    with us.Background(gated) as background:
        server = server_of(
            background, ConvertAll(dataclasses.replace(QUICK, history=2), max_growth=0)
        )
        first = work(server, "s")
        step(server)
        second = work(server, "s")
        step(server)
        other = work(server, "t")
        step(server)
        for update in (first, second, other):
            assert server.submit(update).accepted
        assert server.awaiting_fit == [("s", 0), ("s", 1), ("t", 2)]
        assert background.waiting == 2
        gated.open.set()
        assert background.wait(600)
        report = step(server)
        assert kinds(report) == [("converted", 0)]
        assert kinds(report, "t") == [("converted", 2)]
        assert (report.awaiting_fit, server.awaiting_fit) == (1, [("s", 1)])
        left = server.surrogates()["s"]
        assert background.wait(600)
        report = step(server)
    assert kinds(report) == [("converted", 1)]
    (note,) = [n for n in report.notes if n.client_id == "s"]
    assert note.detail["start"] == "warm"
    assert [r.warm for r in gated.seen[:2]] == [None, None]
    assert torch.equal(gated.seen[2].warm.x, left.x)
    assert len(gated.seen[2].past) == 1


def test_beyond_the_limit_updates_are_converted_in_the_step(gated):
    with us.Background(gated, max_waiting=1) as background:
        server = server_of(background)
        stale = [work(server, c) for c in ("s1", "s2", "s3")]
        step(server)
        for update in stale:
            server.submit(update)
        assert server.awaiting_fit == [("s1", 0)]
        report = step(server)
        assert [kinds(report, u.client_id) for u in stale] == [
            [], [("converted", 0)], [("converted", 0)],
        ]  # fmt: skip
        assert report.awaiting_fit == 1
        gated.open.set()


@pytest.mark.parametrize(
    ("error", "word"),
    [(WorkerError("A Ray worker was lost: x"), "lost"), (MemoryError(), "Memory")],
)
def test_a_fit_that_failed_leaves_the_update_as_it_came(gated, error, word, caplog):
    gated.error = error
    gated.open.set()
    with us.Background(gated) as background:
        server = server_of(background)
        stale = work(server, "s")
        step(server)
        server.submit(stale)
        assert background.wait(600)
        report = step(server)
        (note,) = [n for n in report.notes if n.client_id == "s"]
        assert (note.kind, note.detail["did"]) == ("fallback", "keep")
        assert "in the background failed" in note.detail["reason"]
        assert word in note.detail["reason"]
        used = {u.client_id: u for u in report.updates}["s"]
        assert same(dict(used.delta), dict(stale.delta))
        assert server.awaiting_fit == []
        # The next one is none the worse for it.
        gated.error = None
        again = work(server, "s")
        step(server)
        server.submit(again)
        assert background.wait(600)
        assert kinds(step(server)) == [("converted", again.base_version)]
    assert "failed" in caplog.text


def test_what_the_user_has_to_mend_is_raised_by_the_step():
    with us.Background() as background:
        server = us.Server(
            model_of(), compensator=FEW, local=LOCAL, background=background,
            inputs=us.InputSpec((7,), 2),
        )  # fmt: skip
        stale = work(server, "s")
        step(server)
        server.submit(stale)
        assert background.wait(600)
        before = server.version
        with pytest.raises(ConfigError):
            server.step()
        assert (server.version, server.awaiting_fit) == (before, [("s", 0)])
        # Without inputs nothing can be prepared, and the step says so as ever.
        server = us.Server(model_of(), compensator=FEW, local=LOCAL, background=background)
        stale = work(server, "s")
        step(server)
        assert server.submit(stale).accepted
        assert server.awaiting_fit == []
        with pytest.raises(ConfigError, match="InputSpec"):
            server.step()


def test_a_background_that_is_closed_leaves_the_work_to_the_step(gated):
    background = us.Background(gated)
    server = server_of(background)
    stale = [work(server, c) for c in ("s1", "s2")]
    step(server)
    for update in stale:
        server.submit(update)
    assert gated.begun.wait(600)
    background.close(timeout=0.01)
    report = step(server)
    assert kinds(report, "s2") == [("converted", 0)], "it had not begun"
    assert report.awaiting_fit == 1
    gated.open.set()
    background.close()
    while not kinds(report, "s1"):  # its fit was under way
        report = step(server)
    assert kinds(report, "s1") == [("converted", 0)]


class Fails(Stateless):
    """Fits nothing but makes trouble."""

    def surrogates(self, state):
        return {}

    def fit_job(self, update, state, view):
        raise OSError("the disk is gone")

    def apply(self, updates, state, view):
        return us.Outcome(tuple(updates), state)


def test_trouble_with_a_fit_job_is_left_to_the_step(caplog):
    with us.Background() as background:
        server = server_of(background, Fails())
        stale = work(server, "s")
        step(server)
        assert server.submit(stale).accepted
        assert server.awaiting_fit == []
        assert "the disk is gone" in caplog.text
        assert step(server).arrivals == 2


def test_a_step_that_failed_can_be_taken_again(monkeypatch):
    with us.Background() as background:
        server = server_of(background)
        stale = work(server, "s")
        step(server)
        server.submit(stale)
        assert background.wait(600)

        def full(*_):
            raise OSError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(History, "advance", full)
            with pytest.raises(OSError, match="no space"):
                server.step()
        assert server.awaiting_fit == [("s", 0)]
        report = server.step()
        assert kinds(report) == [("converted", 0)]
        assert (report.arrivals, server.awaiting_fit) == (1, [])


def test_the_cap_on_versions_does_not_lose_what_waits(gated):
    with us.Background(gated) as background:
        server = server_of(background, history=us.HistorySpec(max_versions=2))
        stale = work(server, "s")
        step(server)
        server.submit(stale)
        server.check_out("t")
        for _ in range(3):
            step(server)
        assert server.weights_of(0) is None
        gated.open.set()
        assert background.wait(600)
        assert kinds(step(server)) == [("converted", 0)], "its fit has what it needs"


def test_a_client_that_begins_anew_at_once_still_measures_estimates(gated):
    """It answers, starts again, and only then its update joins: that work is the truth."""
    with us.Background(gated) as background:
        server = server_of(background, us.switch_back(FEW, match_window=0.5))
        first = work(server, "s")
        for _ in range(4):
            step(server)
        server.submit(first)
        second = work(server, "s")  # from version 4
        step(server)
        gated.open.set()
        assert background.wait(600)
        report = step(server)  # joins at version 5: the estimate is for that one
        assert kinds(report) == [("converted", 0)]
        for _ in range(4):
            step(server)
        server.submit(second)
        assert background.wait(600)
        report = step(server)
    assert ("measured", 4) in kinds(report)
    (note,) = [n for n in report.notes if n.kind == "measured"]
    assert note.detail["version"] == 5
