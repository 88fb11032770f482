import json
import logging

import pytest
import torch
from logged_run import told_of, write_logged_run
from torch import nn

import unstale as us
from unstale.errors import RunError
from unstale.flower.run_log import RunLog
from unstale.report import read_run, write_report
from unstale.run_folder import RunFolder


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)


def add(log, *rounds):
    for t in rounds:
        told = told_of(t)
        log.round(told.pop("report"), **told)


def lines(folder, label="convert", seed=0):
    path = RunFolder(folder).lines_path(label, seed)
    return [json.loads(line) for line in path.read_text().splitlines()]


def started(folder, resume_at=None, **options):
    log = RunLog(folder, **{"method": "convert", "seed": 0, "config": {"rounds": 9}, **options})
    log.begin(resume_at)
    return log


def test_the_folder_has_the_simulators_form(tmp_path):
    folder = write_logged_run(tmp_path / "site-a", rounds=8)
    assert {path.name for path in folder.iterdir()} == {
        *(".lock", "config.json", "environment.json", "rounds", "summary.json", "timing.json")
    }
    config = json.loads((folder / "config.json").read_text())
    assert config["engine"] == "flower"
    assert (config["name"], config["rounds"], config["seeds"]) == ("site-a", 8, [0])
    assert config["methods"] == [{"name": "convert", "label": "convert"}]
    assert config["closing"] == {"fraction": 0.8, "deadline": 60.0}
    found = lines(folder)
    assert [line["round"] for line in found] == list(range(1, 9))
    assert {(line["method"], line["seed"]) for line in found} == {("convert", 0)}
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary) == [
        *("format", "scenario", "seeds", "rounds", "target", "window", "reference"),
        *("methods", "flower"),
    ]
    assert summary["flower"] == {"unknown_replies": 2}
    assert summary["methods"]["convert"]["conversions"] == 1
    timing = json.loads((folder / "timing.json").read_text())
    assert timing["methods"]["convert"]["seconds"] == pytest.approx(
        sum(line["seconds"] for line in found)
    )


def test_a_line_is_there_when_its_round_is_over(tmp_path):
    log = started(tmp_path / "run")
    for t in (1, 2, 3):
        add(log, t)
        assert len(lines(tmp_path / "run")) == t
    log.close()


def test_a_method_with_settings_and_any_config(tmp_path):
    method = us.method("first_order", lam=0.5)
    log = started(
        tmp_path / "run",
        method=method,
        config={
            "rounds": 3,
            "local": us.LocalSpec(lr=0.3),
            "loss": torch.nn.functional.mse_loss,
            "limit": float("inf"),
            "checkpoints": tmp_path,
            "model": nn.Linear(2, 2),
        },
    )
    log.close()
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["methods"] == [{"name": "first_order", "label": "first_order", "lam": 0.5}]
    assert config["local"]["lr"] == 0.3
    assert (config["loss"], config["limit"], config["model"]) == ("mse_loss", "inf", "Linear")


def test_the_label_is_a_name_for_a_folder(tmp_path):
    method = us.Method(name="../my own/method")
    assert RunLog(tmp_path / "run", method=method).label == "_my_own_method"


# --- going on ------------------------------------------------------------------------------


def test_lines_beyond_the_checkpoint_are_cut(tmp_path):
    folder = tmp_path / "run"
    log = started(folder)
    add(log, 1, 2, 3, 4, 5)
    log.close()
    log = started(folder, resume_at=3)
    assert [line["round"] for line in lines(folder)] == [1, 2, 3]
    add(log, *range(4, 10))
    log.finish()
    whole = started(tmp_path / "whole")
    add(whole, *range(1, 10))
    whole.finish()
    assert lines(folder) == lines(tmp_path / "whole")
    one, other = ((f / "summary.json").read_text() for f in (folder, tmp_path / "whole"))
    assert one.replace('"run"', '"whole"') == other


def test_a_line_cut_off_by_a_crash_is_gone(tmp_path):
    log = started(tmp_path / "run")
    add(log, 1, 2)
    log.close()
    path = RunFolder(tmp_path / "run").lines_path("convert", 0)
    path.write_bytes(path.read_bytes()[:-30])
    log = started(tmp_path / "run", resume_at=1)
    add(log, 2)
    log.close()
    assert [line["round"] for line in lines(tmp_path / "run")] == [1, 2]


def test_a_finished_run_that_goes_on_is_unfinished_again(tmp_path):
    folder = write_logged_run(tmp_path / "run", rounds=4)
    assert read_run(folder).finished
    log = started(folder, resume_at=4, config={"rounds": 6})
    log.close()
    run = read_run(folder)
    assert not run.finished
    assert run.planned_rounds == 6
    assert not (folder / "timing.json").exists()


def test_what_changed_is_told(tmp_path, caplog):
    started(tmp_path / "run").close()
    with caplog.at_level(logging.INFO):
        started(tmp_path / "run", resume_at=0, config={"rounds": 12, "deadline": 3}).close()
    assert "Settings that differ from before: deadline, rounds" in caplog.messages


def test_lines_that_are_missing_are_told(tmp_path, caplog):
    log = started(tmp_path / "run")
    add(log, 1, 2)
    log.close()
    log = started(tmp_path / "run", resume_at=5)
    assert "  the lines of 3 rounds are missing" in caplog.messages
    add(log, 6)
    log.close()
    assert [line["round"] for line in lines(tmp_path / "run")] == [1, 2, 6]
    write_report(tmp_path / "run")


def test_damaged_lines_do_not_stop_a_server(tmp_path, caplog):
    log = started(tmp_path / "run")
    add(log, 1, 2)
    log.close()
    path = RunFolder(tmp_path / "run").lines_path("convert", 0)
    damaged = b"\0\0\0\n" + path.read_bytes()
    path.write_bytes(damaged)
    log = started(tmp_path / "run", resume_at=2)
    add(log, 3)
    log.close()
    assert "set aside as seed-0.damaged.jsonl. Line 1 of " in caplog.text
    assert path.with_name("seed-0.damaged.jsonl").read_bytes() == damaged
    assert [r.number for r in read_run(tmp_path / "run").rounds["convert"][0]] == [3]


def test_a_new_run_overwrites_nothing(tmp_path):
    folder = write_logged_run(tmp_path / "run", rounds=2)
    before = lines(folder)
    with pytest.raises(RunError, match=r"holds one already.*resume=True"):
        started(folder)
    assert lines(folder) == before
    assert (folder / "summary.json").exists()
    started(folder, resume_at=2).close()  # and the folder is not locked


@pytest.mark.parametrize(
    ("change", "word"), [({"method": "unweighted"}, "method"), ({"seed": 3}, "seed")]
)
def test_another_run_is_not_gone_on_with(tmp_path, change, word):
    folder = write_logged_run(tmp_path / "run", rounds=2)
    with pytest.raises(RunError, match=f"should go on with the {word} it began with"):
        started(folder, resume_at=2, **change)
    assert len(lines(folder)) == 2


def test_a_simulators_folder_is_not_gone_on_with(tmp_path):
    config = {"name": "x", "seeds": [0], "methods": [{"name": "convert", "label": "convert"}]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match="with the engine it began with, 'simulator'"):
        started(tmp_path, resume_at=0)


def test_one_server_at_a_time(tmp_path):
    log = started(tmp_path / "run")
    with pytest.raises(RunError, match="One process at a time"):
        started(tmp_path / "run", resume_at=0)
    add(log, 1)
    log.finish()
    started(tmp_path / "run", resume_at=1).close()


def test_a_server_may_lock_before_it_reads_its_checkpoint(tmp_path):
    log = RunLog(tmp_path / "run", method="convert")
    log.folder.lock()
    log.begin()
    log.close()


# --- what comes of it ----------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [True, False])
def test_surrogates_of_a_real_server(tmp_path, wanted):
    model = nn.Linear(3, 2)
    inputs = us.InputSpec(shape=(3,), classes=2, low=-1.0, high=1.0)
    few = us.Inversion(iterations=4, warm_iterations=2, min_samples=2, max_samples=4, max_loss=1e9)
    method = us.method("convert", inversion=few)
    server = us.Server(
        model,
        method,
        local=us.LocalSpec(lr=0.1, epochs=1),
        inputs=inputs,
        storage=us.Storage(surrogates=wanted),
    )
    version, params = server.check_out("7")
    server.step()
    delta = {name: 0.01 * torch.ones_like(p) for name, p in params.items()}
    server.submit(us.Update("7", version, delta, num_examples=8))
    report = server.step()
    log = started(tmp_path / "run", method=method)
    log.surrogates(server)
    log.round(
        report, round=2, evaluation={}, answered=["7"], late={"7": 1}, working={}, refused=[],
        seconds=1.0,
    )  # fmt: skip
    log.close()
    run = read_run(tmp_path / "run")
    found = run.surrogates.get("convert", {0: ()})[0]
    assert [one.client for one in found] == (["7"] if wanted else [])
    (record,) = run.rounds["convert"][0]
    assert record.conversions == len(record.converted) == 1


def test_the_report_of_a_run(tmp_path):
    folder = write_logged_run(tmp_path / "run")
    page = write_report(folder).read_text()
    assert "Over rounds 21 to 40, with replies up to 5 rounds late, " in page
    assert "Three fast sites and a slow one" in page
    for key in ("effect", "summary", "nodes", "staleness", "conversions", "fit", "setup"):
        assert f'<section id="{key}">' in page
    assert '<section id="clients">' not in page
    assert "<dt>flwr</dt>" in page
    assert "Unfinished" not in page
    names = {path.stem for path in (folder / "plots").iterdir()}
    assert {"affected_accuracy", "staleness", "seconds", "conversions"} <= names


def test_the_report_of_a_run_that_goes_on(tmp_path):
    folder = write_logged_run(tmp_path / "run", reached=23, affected=False)
    page = write_report(folder).read_text()
    assert "<b>Unfinished</b> Round 23 of 40. All numbers are provisional.</p>" in page
    assert "reaches 0.89 in accuracy" in page
    assert "Accuracy by round" in page
    assert "ffected" not in page.split("<script>")[0].split("</style>")[1]


def test_the_report_of_a_run_without_evaluation(tmp_path):
    folder = write_logged_run(tmp_path / "run", rounds=8, affected=False, evaluate=False)
    page = write_report(folder).read_text()
    assert "The model was not evaluated: with an evaluate_fn" in page
    assert '<section id="effect">' not in page
    assert '<section id="nodes">' in page
