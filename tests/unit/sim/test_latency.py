import dataclasses
import logging

import numpy as np
import pytest

from unstale.errors import ConfigError
from unstale.sim.latency import (
    KINDS,
    ConstantLatency,
    IntertwinedLatency,
    LognormalLatency,
    NoLatency,
    ParetoLatency,
    TraceLatency,
    UniformLatency,
)

HIST = np.ones((200, 10), dtype=np.int64)
DRAWN = [
    UniformLatency(3, 9),
    LognormalLatency(10.0, 0.5),
    ParetoLatency(5.0, 1.5),
]


def draws(latency, seed=0, jobs=20):
    plan = latency.plan(HIST, seed)
    return np.array([[plan.rounds(client, job) for job in range(jobs)] for client in range(200)])


def test_every_kind_is_registered():
    names = {"none", "constant", "uniform", "lognormal", "pareto", "trace", "intertwined"}
    assert set(KINDS) == names
    for name, kind in KINDS.items():
        assert dataclasses.is_dataclass(kind)
        latency = kind(path="x.csv") if name == "trace" else kind()
        assert latency.affected == ((5,) if name == "intertwined" else ())


def test_none_is_never_late():
    plan = NoLatency().plan(HIST, 0)
    assert plan.slow == ()
    assert {plan.rounds(client, 7) for client in range(200)} == {0}


def test_constant_for_all_or_some():
    everyone = ConstantLatency(4).plan(HIST, 0)
    assert everyone.slow == tuple(range(200))
    assert everyone.rounds(199, 5) == 4
    some = ConstantLatency(4, clients=[9, 2]).plan(HIST, 0)
    assert some.slow == (2, 9)
    assert [some.rounds(client, 0) for client in (1, 2, 9)] == [0, 4, 4]
    assert (some.typical(1), some.typical(2)) == (0.0, 4.0)
    with pytest.raises(ConfigError, match=r"from 0 to 199\. Found 200"):
        ConstantLatency(4, clients=(200,)).plan(HIST, 0)


@pytest.mark.parametrize("latency", DRAWN, ids=str)
def test_draws_depend_on_seed_client_and_job_only(latency):
    first = draws(latency)
    plan = latency.plan(HIST, 0)
    backwards = [plan.rounds(np.int64(c), np.int64(j)) for c in (199, 0) for j in (19, 0)]
    assert backwards == [first[199, 19], first[199, 0], first[0, 19], first[0, 0]]
    assert (draws(latency, seed=1) != first).any()
    assert len({tuple(row) for row in first}) > 190
    assert all(isinstance(value, int) for value in backwards)


@pytest.mark.parametrize("latency", DRAWN, ids=str)
def test_per_client_keeps_one_draw(latency):
    found = draws(dataclasses.replace(latency, per="client"))
    assert (found == found[:, :1]).all()
    assert len(set(found[:, 0])) > 3
    plan = dataclasses.replace(latency, per="client").plan(HIST, 0)
    assert plan.typical(7) == found[7, 0]


@pytest.mark.parametrize("latency", DRAWN, ids=str)
@pytest.mark.parametrize("per", ["job", "client"])
def test_share_picks_slow_clients_by_seed(latency, per):
    part = dataclasses.replace(latency, per=per, share=0.25)
    plan = part.plan(HIST, 0)
    assert len(plan.slow) == 50
    assert list(plan.slow) == sorted(set(plan.slow))
    assert plan.slow != part.plan(HIST, 1).slow
    late = {client for client in range(200) if any(plan.rounds(client, j) for j in range(5))}
    assert late == set(plan.slow)
    fast = next(client for client in range(200) if client not in plan.slow)
    assert plan.typical(fast) == 0.0
    assert dataclasses.replace(latency, per=per, share=0.0).plan(HIST, 0).slow == ()
    assert len(dataclasses.replace(latency, per=per, share=1e-9).plan(HIST, 0).slow) == 1


def test_uniform_covers_its_range_evenly():
    found = draws(UniformLatency(3, 6))
    counts = np.bincount(found.ravel(), minlength=8) / found.size
    assert counts[[0, 1, 2, 7]].sum() == 0
    assert np.abs(counts[3:7] - 0.25).max() < 0.03
    assert UniformLatency(3, 7).plan(HIST, 0).typical(0) == 5.0


def test_lognormal_has_its_median_and_spread():
    found = draws(LognormalLatency(100.0, 0.5))
    assert np.median(found) == pytest.approx(100, rel=0.05)
    assert np.log(found).std() == pytest.approx(0.5, rel=0.05)
    assert LognormalLatency(100.0, 0.5).plan(HIST, 0).typical(0) == 100.0
    assert set(draws(LognormalLatency(7.0, 0.0), jobs=2).ravel()) == {7}


def test_pareto_has_its_tail():
    found = draws(ParetoLatency(100.0, 2.0))
    assert found.min() >= 100
    assert (found > 200).mean() == pytest.approx(1 / 4, abs=0.03)
    assert (found > 400).mean() == pytest.approx(1 / 16, abs=0.02)
    assert ParetoLatency(100.0, 1.0).plan(HIST, 0).typical(0) == 200.0


def test_cap_and_heavy_tails():
    for latency in (ParetoLatency(5.0, 0.01), LognormalLatency(5.0, 1e6)):
        assert draws(latency, jobs=3).max() == 10**9  # no overflow
        capped = dataclasses.replace(latency, cap=50)
        assert draws(capped, jobs=3).max() == 50
        assert capped.plan(HIST, 0).typical(0) <= 50


def test_intertwined_slows_the_holders_of_each_class():
    hist = np.array([[9, 0, 1], [0, 9, 1], [8, 8, 1], [0, 1, 1], [1, 0, 1]])
    latency = IntertwinedLatency(classes=[0, 1], clients=2, rounds=[30, 40], others=3)
    assert latency.affected == (0, 1)
    plan = latency.plan(hist, 0)
    assert plan.slow == (0, 1, 2)
    assert [plan.rounds(client, 5) for client in range(5)] == [30, 40, 40, 3, 3]
    assert IntertwinedLatency((0, 1), 2, 7).plan(hist, 0).latencies == (7, 7, 7, 0, 0)
    # client 2 holds much of both: the longer latency wins, whichever class comes first
    assert IntertwinedLatency((0, 1), 2, (40, 30)).plan(hist, 0).latencies == (40, 30, 40, 0, 0)


def test_intertwined_at_zero_keeps_its_slow_clients():
    hist = np.array([[9, 0], [0, 9], [5, 5]])
    assert IntertwinedLatency((0,), 2, 0).plan(hist, 0).slow == (0, 2)


def test_intertwined_warns_of_slow_clients_without_the_class(caplog):
    hist = np.array([[9, 0], [0, 9], [5, 5]])
    with caplog.at_level(logging.WARNING):
        assert IntertwinedLatency((0,), 3).plan(hist, 0).slow == (0, 1, 2)
    assert "1 of the 3 clients that are slow for class 0" in caplog.text


@pytest.mark.parametrize("latency", [IntertwinedLatency((10,)), IntertwinedLatency((5,), 201)])
def test_intertwined_refuses_what_is_not_there(latency):
    with pytest.raises(ConfigError, match=r"should be .* Found"):
        latency.plan(HIST, 0)


def test_trace_holds_from_its_row_on(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("\ufeffclient,round,latency\r\n3,20,1\r\n\r\n3,5,40\r\n 0, 0, 2\r\n", "utf-8")
    plan = TraceLatency(str(file)).plan(HIST, 0)
    assert [plan.rounds(3, job) for job in (0, 4, 5, 19, 20, 999)] == [0, 0, 40, 40, 1, 1]
    assert plan.rounds(0, 7) == 2
    assert plan.rounds(1, 7) == 0
    assert plan.slow == (0, 3)
    assert (plan.typical(3), plan.typical(1)) == (20.5, 0.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Line 1 .* header client,round,latency. Found an empty file"),
        ("client,latency\n", "Line 1 .*Found 'client,latency'"),
        ("client,round,latency\n0,1,2\n0,x,2\n", "Line 3 .* 3 whole numbers .*Found '0,x,2'"),
        ("client,round,latency\n\n0,1\n", "Line 3 "),
        ("client,round,latency\n0,1,-2\n", "Line 2 .*none below 0"),
        ("client,round,latency\n0,1,2.5\n", "Line 2 "),
        ("client,round,latency\n200,1,2\n", "Line 2 .* from 0 to 199. Found 200"),
        ("client,round,latency\n0,1,2\n0,1,3\n", "Line 3 .* client 0 and round 1"),
        (b"client,round,latency\n\xff\xfe\n", "readable CSV"),
    ],
)
def test_malformed_traces_are_refused_with_their_line(tmp_path, text, says):
    file = tmp_path / "trace.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=says):
        TraceLatency(str(file)).plan(HIST, 0)


def test_a_missing_trace_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.csv should be a readable"):
        TraceLatency(str(tmp_path / "nowhere.csv")).plan(HIST, 0)
    with pytest.raises(ConfigError, match="'path' should name"):
        TraceLatency()


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("constant", {"rounds": -1}),
        ("constant", {"clients": (1, 1)}),
        ("constant", {"clients": (-1,)}),
        ("constant", {"clients": ()}),
        ("uniform", {"low": 5, "high": 4}),
        ("uniform", {"low": -1}),
        ("uniform", {"per": "jobs"}),
        ("uniform", {"share": 1.5}),
        ("lognormal", {"median": float("nan")}),
        ("lognormal", {"sigma": float("inf")}),
        ("lognormal", {"share": float("nan")}),
        ("lognormal", {"cap": -1}),
        ("pareto", {"shape": 0.0}),
        ("pareto", {"scale": -1.0}),
        ("intertwined", {"classes": ()}),
        ("intertwined", {"classes": (1, 1)}),
        ("intertwined", {"rounds": (1, 2)}),
        ("intertwined", {"rounds": -3}),
        ("intertwined", {"clients": 0}),
        ("intertwined", {"others": -1}),
    ],
)
def test_bad_settings_are_refused(kind, bad):
    with pytest.raises(ConfigError, match=r"should .* Found "):
        KINDS[kind](**bad)
