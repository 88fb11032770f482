import json

import pytest
import torch

from unstale.errors import ConfigError, DataError, ModelError, RunError
from unstale.experiment import RunFolder, for_programs, parse, run_experiment
from unstale.run_folder.lines import Lines
from unstale.server.checkpoint import load_tensors


def lines(folder, label, seed):
    return [line.to_json() for line in Lines(folder.lines_path(label, seed)).read()]


def test_what_a_run_leaves_behind(run_tiny, table, recorder):
    progress = recorder()
    folder = run_tiny("a", progress=progress, command="unstale run tiny")
    found = {p.relative_to(folder.path).as_posix() for p in folder.path.rglob("*") if p.is_file()}
    per_run = [f"{label}/seed-{seed}" for label in ("unweighted", "taylor") for seed in (0, 1)]
    assert found == {
        ".lock", "config.json", "environment.json", "summary.json", "timing.json",
        "scenario/seed-0.json", "scenario/seed-1.json",
        *(f"rounds/{place}.jsonl" for place in per_run),
        *(f"checkpoints/{place}/final.safetensors" for place in per_run),
    }  # fmt: skip
    assert progress.began == 1
    assert progress.seen == [
        (label, seed, r) for seed in (0, 1) for label in ("unweighted", "taylor")
        for r in range(1, 8)
    ]  # fmt: skip
    assert parse(json.loads(folder.config_path.read_text())) == parse(table)
    environment = json.loads((folder.path / "environment.json").read_text())
    assert environment["command"] == "unstale run tiny"
    assert environment["device"] == "cpu"


def test_lines(run_tiny):
    records = lines(run_tiny("a"), "taylor", 1)
    assert [r["round"] for r in records] == list(range(1, 8))
    assert {(r["method"], r["seed"]) for r in records} == {("taylor", 1)}
    # Every second round is evaluated, and the last one always.
    assert [r["accuracy"] is not None for r in records] == [0, 1, 0, 1, 0, 1, 1]
    keys = {"affected_accuracy", "class_accuracy", "loss", "arrivals", "staleness", "refused"}
    assert all(keys | {"seconds"} <= set(r) for r in records)
    assert any(r["notes"].get("compensated") for r in records)
    assert all(r["seconds"] > 0 for r in records)


def test_methods_see_the_same_events_and_start_alike(run_tiny, table, monkeypatch):
    from unstale.server import Server

    table["methods"] = ["unweighted", "weighted", {"name": "first_order", "lam": 2.0}]
    started, asked = [], []
    make, check_out = Server.__init__, Server.check_out

    def noted_start(self, *args, **options):
        make(self, *args, **options)
        started.append(self.params)
        asked.append([])

    def noted_check_out(self, client_id):
        asked[-1].append((self.version, client_id))
        return check_out(self, client_id)

    monkeypatch.setattr(Server, "__init__", noted_start)
    monkeypatch.setattr(Server, "check_out", noted_check_out)
    folder = run_tiny("a")
    first, second = started[:3], started[3:]
    assert len(second) == 3
    for of_seed in (first, second):
        assert all(torch.equal(p[n], of_seed[0][n]) for p in of_seed for n in p)
    assert not torch.equal(first[0]["1.weight"], second[0]["1.weight"])
    assert asked[0] == asked[1] == asked[2]
    assert asked[0] != asked[3] == asked[4]
    staleness = [[r["staleness"] for r in lines(folder, m, 0)] for m in ("unweighted", "weighted")]
    assert staleness[0] == staleness[1]


def test_one_method_more_changes_no_number(run_tiny, table):
    alone = run_tiny("alone", table={**table, "methods": table["methods"][1:], "seeds": [1]})
    both = run_tiny("both")
    drop = [
        [{k: v for k, v in r.items() if k != "seconds"} for r in lines(f, "taylor", 1)]
        for f in (alone, both)
    ]
    assert drop[0] == drop[1]


def test_the_final_model_is_kept(run_tiny, monkeypatch):
    from unstale.sim import Simulation

    last = []
    run_round = Simulation.run_round

    def noted(self, **options):
        record = run_round(self, **options)
        last[:] = [self.server.params]
        return record

    monkeypatch.setattr(Simulation, "run_round", noted)
    folder = run_tiny("a")
    final = load_tensors(folder.checkpoints_path("taylor", 1) / "final.safetensors")
    assert set(final) == set(last[0])
    assert all(torch.equal(final[n], p) for n, p in last[0].items())


def test_summary_and_what_programs_get(run_tiny, table):
    folder = run_tiny("a")
    summary = json.loads(folder.summary_path.read_text())
    assert summary["scenario"] == "tiny"
    assert (summary["rounds"], summary["seeds"], summary["target"]) == (7, [0, 1], 0.5)
    assert list(summary["methods"]) == ["unweighted", "taylor"]
    assert "seconds" not in json.dumps(summary)
    found = for_programs(folder)
    wanted = {
        "accuracy", "affected_accuracy", "affected_mean", "held_from", "seconds",
        "conversions", "iterations", "stand_ins", "stand_in_age", "stand_in_error",
    }  # fmt: skip
    assert all(wanted <= set(figures) for figures in found["methods"].values())
    seconds = sum(r["seconds"] for s in (0, 1) for r in lines(folder, "taylor", s))
    assert found["methods"]["taylor"]["seconds"] == pytest.approx(seconds)
    assert found["run"] == str(folder.path)
    # accuracy: the evaluated rounds above 5.6 are 6 and 7, meaned over seeds.
    values = [lines(folder, "taylor", s)[r - 1]["accuracy"] for s in (0, 1) for r in (6, 7)]
    assert summary["methods"]["taylor"]["accuracy"] == pytest.approx(sum(values) / 4)


def test_oracle_figures_only_where_asked_for(run_tiny, table):
    plain = run_tiny("plain")
    judged = run_tiny("judged", table={**table, "oracle": True})
    assert not any(k.startswith("oracle/") for r in lines(plain, "taylor", 0) for k in r)
    records = lines(judged, "taylor", 0)
    assert any(r["oracle/stale_cosine"] is not None for r in records)
    one, two = (f.summary_path.read_bytes() for f in (plain, judged))
    assert one == two


# --- refused before anything is written -----------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"data": {"name": "mnist"}}, DataError),
        ({"model": {"name": "digits"}}, ConfigError),  # wants 64 values
        ({"model": {"name": "mlp", "hiden": [4]}}, ConfigError),
        ({"model": {"name": "mlp", "hidden": "x"}}, ConfigError),
        ({"evaluate": {"affected": [4]}}, ConfigError),
        ({"evaluate": {"affected": [-1]}}, ConfigError),
        ({"latency": {"kind": "intertwined", "classes": [9], "clients": 1}}, ConfigError),
        ({"partition": {"kind": "one_class", "clients": 8, "samples": 9999}}, ConfigError),
        ({"latency": {"kind": "trace", "path": "/nowhere.csv"}}, ConfigError),
    ],
    ids=str,
)
def test_what_cannot_run_leaves_no_folder(change, error, run_tiny, table, tmp_path):
    with pytest.raises(error):
        run_tiny("a", table={**table, **change}, data_root=str(tmp_path / "no-data"))
    assert not (tmp_path / "a").exists()


def test_a_model_that_cannot_be_trained_leaves_no_folder(run_tiny, table, monkeypatch, tmp_path):
    from torch import nn

    monkeypatch.setattr(
        "unstale.models.build",
        lambda *_, **__: nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(3, 4)),
    )
    with pytest.raises(ModelError, match="Dropout"):
        run_tiny("a", table={**table, "methods": [{"name": "unweighted"}, {"name": "convert"}]})
    assert not (tmp_path / "a").exists()
    run_tiny("a")  # methods that do not convert take it as it is


@pytest.mark.parametrize("name", ["nope", "", "meta", "cuda:99", "cpu:x"])
def test_devices_that_are_not_there(name, run_tiny, tmp_path):
    with pytest.raises(ConfigError, match="device should be one that torch has here") as caught:
        run_tiny("a", device=name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert not (tmp_path / "a").exists()


# --- folders that hold something already ------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rounds": 8}, "rounds"),
        ({"seeds": [0]}, "seeds"),
        ({"local": {"lr": 0.4}}, "local.batch_size, local.epochs, local.lr, local.momentum"),
        ({"methods": ["unweighted", {"name": "first_order", "label": "taylor"}]}, "methods.1.lam"),
        ({"latency": {"kind": "none"}}, "latency.clients, latency.kind"),
        ({"title": "Other"}, "title"),
    ],
    ids=str,
)
def test_another_config_is_refused_by_its_keys(change, named, run_tiny, table, recorder):
    with pytest.raises(KeyboardInterrupt):
        run_tiny("a", progress=recorder(stop_after=1))
    with pytest.raises(RunError, match="differs in: ") as caught:
        run_tiny("a", table={**table, **change})
    if named.startswith("latency"):
        assert "latency.kind" in str(caught.value)
    else:
        assert f"differs in: {named}." in str(caught.value)


def test_another_device_is_refused(run_tiny):
    folder = run_tiny("a")
    path = folder.path / "environment.json"
    environment = json.loads(path.read_text())
    path.write_text(json.dumps({**environment, "device": "cuda:0"}))
    with pytest.raises(RunError, match=r"device it began on, cuda:0\. Found cpu.*--device cuda:0"):
        run_tiny("a")
    path.write_text(json.dumps({**environment, "device": "cpu:0"}))
    run_tiny("a")


def test_a_folder_at_work_is_refused(run_tiny, tmp_path):
    other = RunFolder(tmp_path / "a")
    other.lock()
    with pytest.raises(RunError, match="One process at a time"):
        run_tiny("a")
    other.unlock()
    run_tiny("a")


def test_the_folder_is_free_after_a_failure(run_tiny, recorder):
    with pytest.raises(KeyboardInterrupt):
        run_tiny("a", progress=recorder(stop_after=1))
    run_tiny("a")


def test_a_folder_that_cannot_be_made(run_tiny, tmp_path):
    (tmp_path / "a").write_text("a file in the way")
    with pytest.raises(ConfigError, match="which is a file"):
        run_tiny("a")


@pytest.mark.usefixtures("_clouds")
def test_silent_by_default(table, tmp_path, capsys):
    run_experiment(parse({**table, "seeds": [0]}), RunFolder(tmp_path / "a"))
    assert capsys.readouterr() == ("", "")


def test_threads_are_set_for_the_run_alone(run_tiny, table):
    before = torch.get_num_threads()
    seen = []

    class Watching:
        def begin(self, config, folder):
            pass

        def advance(self, label, seed, record):
            seen.append(torch.get_num_threads())

    run_tiny("threads", table={**table, "threads": before + 1}, progress=Watching())
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before
