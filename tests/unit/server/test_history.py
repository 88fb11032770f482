"""The past: as long as somebody works on it, as small as that allows, and on disk beyond."""

import gc
import math
from pathlib import Path

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError
from unstale.server.history import History, VersionStore


def weights(version, n=4, dtype=torch.float32):
    return {"w": torch.full((n,), float(version) / 3, dtype=dtype)}


BYTES = 16  # of `weights`


def test_memory_grows_with_open_tickets_and_not_with_rounds():
    server = us.Server(nn.Linear(3, 1), method="unweighted")
    slow = {0: "slow0", 700: "slow1", 701: "slow2"}
    sizes = []
    for round_ in range(2000):
        if round_ in slow:
            server.check_out(slow[round_])
        version, params = server.check_out("fast")
        server.submit(us.Update("fast", version, {n: p * 0 for n, p in params.items()}, 1))
        if round_ == 1500:
            server.release("slow0")
        sizes.append(server.step().history)
    assert [s["versions"] for s in sizes[:700]] == [2] * 700
    assert [s["versions"] for s in sizes[701:1500]] == [4] * 799  # three tickets and the current
    assert sizes[-1] == {"versions": 3, "bytes": 3 * BYTES, "on_disk": 0}
    # What is remembered of who answered is small too: one stretch for two thousand answers.
    assert server.to_tree()[0]["tickets"]["answered"]["fast"]["stretches"] == [[0, 1999]]


def test_where_nobody_checks_out_the_last_versions_stay_up_to_the_cap():
    server = us.Server(nn.Linear(3, 1), history=us.HistorySpec(max_versions=5))
    for _ in range(20):
        report = server.step()
    assert report.history["versions"] == 5
    assert [v for v in range(21) if server.weights_of(v) is not None] == [16, 17, 18, 19, 20]


def test_the_cap_holds_over_open_tickets_and_the_oldest_go_first():
    server = us.Server(nn.Linear(3, 1), history=us.HistorySpec(max_versions=3), method="w_pred")
    for round_ in range(6):
        server.check_out(f"c{round_}")
        server.step()
    assert [v for v in range(7) if server.weights_of(v) is not None] == [4, 5, 6]
    zeros = {n: torch.zeros_like(p) for n, p in server.params.items()}
    assert server.submit(us.Update("c1", 1, zeros, 1)).accepted
    assert server.step().count("fallback") == 1


@pytest.mark.parametrize(("lookback", "kept"), [(0, [3, 9]), (1, [2, 3, 8, 9])])
def test_lookback_keeps_the_versions_before(lookback, kept):
    history = History(us.HistorySpec(), lookback)
    for version in range(10):
        history.advance(version, weights(version), {3} if version >= 3 else set())
    assert history.store.versions == kept


def test_w_pred_finds_the_version_before_a_base_that_was_checked_out():
    server = us.Server(nn.Linear(3, 1), method="w_pred")
    ones = {n: torch.ones_like(p) for n, p in server.params.items()}
    server.check_out("fast")
    server.submit(us.Update("fast", 0, ones, 1))
    server.step()
    server.check_out("slow")
    for _ in range(5):
        server.step()
    assert server.outstanding == [1]
    server.submit(us.Update("slow", 1, ones, 1))
    assert [n.kind for n in server.step().notes] == ["compensated"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_beyond_its_size_it_lies_on_disk_and_comes_back_bitwise(dtype, tmp_path):
    rng = torch.Generator().manual_seed(0)
    saved = {v: {"w": torch.randn(3, 5, generator=rng).to(dtype).t()} for v in range(6)}
    size = 15 * saved[0]["w"].element_size()
    store = VersionStore(memory_bytes=2 * size, folder=tmp_path / "spill")
    for version, params in saved.items():
        store.put(version, params)
    assert (store.on_disk, store.memory_used) == (4, 2 * size)
    assert store.versions == list(range(6))
    for version, params in saved.items():
        found = store.get(version)["w"]
        assert found.dtype == dtype
        assert torch.equal(found, params["w"])
    store.drop([0, 5, 77])
    assert (store.on_disk, store.memory_used, store.versions) == (3, size, [1, 2, 3, 4])
    assert len(list(tmp_path.rglob("*.safetensors"))) == 3
    store.put(1, saved[5])  # again: the one on disk is forgotten
    assert torch.equal(store.get(1)["w"], saved[5]["w"])


def test_the_newest_stays_in_memory_whatever_the_limit():
    store = VersionStore(memory_bytes=0)
    store.put(0, weights(0))
    assert (store.on_disk, store.memory_used) == (0, BYTES)


def test_spilled_files_go_when_the_store_goes(tmp_path):
    store = VersionStore(memory_bytes=0, folder=tmp_path)
    for version in range(3):
        store.put(version, weights(version))
    assert len(list(tmp_path.iterdir())) == 1
    del store
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_two_stores_of_one_folder_do_not_meet(tmp_path):
    one, other = (VersionStore(0, tmp_path) for _ in range(2))
    for store, sign in ((one, 1), (other, -1)):
        for version in (1, 2):
            store.put(version, weights(sign * version))
    assert one.get(1)["w"][0] > 0 > other.get(1)["w"][0]


def test_the_result_does_not_depend_on_where_versions_lie():
    def run(**settings):
        model = nn.Linear(3, 1)
        with torch.no_grad():
            model.weight.copy_(torch.tensor([[0.1, -0.2, 0.3]]))
            model.bias.fill_(0.4)
        server = us.Server(model, "w_pred", history=us.HistorySpec(**settings))
        for round_ in range(8):
            for back in range(min(round_, 3) + 1):
                delta = {n: p * 0.1 * (1 + back) for n, p in server.params.items()}
                assert server.submit(us.Update(f"c{back}", round_ - back, delta, 1)).accepted
            report = server.step()
        assert report.count("compensated") == 3
        return report.history["on_disk"], torch.cat([p.flatten() for p in server.params.values()])

    (none, in_memory), (some, half), (most, on_disk) = (
        run(**settings) for settings in ({}, {"memory_bytes": 64}, {"memory_bytes": 0})
    )
    assert (none, some, most) == (0, 5, 8)
    assert torch.equal(in_memory, half)
    assert torch.equal(in_memory, on_disk)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_versions": 0},
        {"max_versions": 2.5},
        {"max_versions": True},
        {"memory_bytes": -1},
        {"memory_bytes": math.inf},
    ],
)
def test_refuses_settings_that_make_no_sense(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        us.HistorySpec(**wrong)


def test_a_folder_may_be_a_path_and_still_be_saved(tmp_path):
    spec = us.HistorySpec(folder=Path("somewhere"))
    us.Server(nn.Linear(3, 1), history=spec).save(tmp_path)
    assert us.Server.load(tmp_path).settings.history == us.HistorySpec(folder="somewhere")


def test_a_version_on_disk_comes_back_with_its_names_in_order():
    # safetensors keeps no order; whoever flattens weights relies on it.
    names = [f"layer{i}.{kind}" for i in range(12) for kind in ("weight", "bias")]
    store = VersionStore(memory_bytes=0)
    store.put(0, {name: torch.full((2,), float(i)) for i, name in enumerate(names)})
    store.put(1, {name: torch.zeros(2) for name in names})
    assert store.on_disk == 1
    for _ in range(5):
        assert list(store.get(0)) == names
