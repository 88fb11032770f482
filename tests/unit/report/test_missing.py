import csv
import io
import shutil

from unstale.report import read_run, write_report
from unstale.report.export import as_csv
from unstale.report.missing import Missing


def test_a_summary_without_its_rounds_is_not_used(fake_run):
    folder = fake_run(rounds=20, seeds=(0, 1), methods=("unweighted", "convert"))
    path = folder / "rounds" / "convert" / "seed-1.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:12]))
    (folder / "rounds" / "unweighted" / "seed-0.jsonl").unlink()
    run = read_run(folder)
    assert [str(one) for one in run.missing] == [
        "unweighted, seed 0: all 20 rounds",
        "convert, seed 1: rounds 13 to 20 of 20",
    ]
    assert not run.finished
    assert "Unfinished" in write_report(folder).read_text()


def test_a_gap_is_noticed_and_a_whole_run_has_none(fake_run):
    folder = fake_run(rounds=10, seeds=(0,), methods=("unweighted",))
    assert read_run(folder).missing == ()
    path = folder / "rounds" / "unweighted" / "seed-0.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3] + lines[4:]))
    assert [str(one) for one in read_run(folder).missing] == ["unweighted, seed 0: round 4 of 10"]


def test_a_run_under_way_has_no_missing_rounds(fake_run):
    folder = fake_run(finished=False, reached={("convert", 1): 40})
    assert read_run(folder).missing == ()


def test_a_try_that_wrote_why_it_failed_is_not_missing(fake_run):
    folder = fake_run(rounds=10, seeds=(0,), methods=("unweighted", "weighted"))
    (folder / "rounds" / "weighted" / "seed-0.jsonl").unlink()
    (folder / "failures" / "weighted").mkdir(parents=True)
    (folder / "failures" / "weighted" / "seed-0.json").write_text("{}")
    assert read_run(folder).missing == ()


def test_scattered_rounds_are_counted():
    found = Missing("a", 0, (2, 5, 9), 10)
    assert str(found) == "a, seed 0: 3 of 10 rounds, between 2 and 9"


def test_every_round_is_a_row_of_the_csv(fake_run):
    folder = fake_run(rounds=10, seeds=(0, 3), methods=("unweighted", "convert"), evaluate_every=2)
    run = read_run(folder)
    rows = list(csv.DictReader(io.StringIO(as_csv(["one", "two"], [run, run]))))
    assert len(rows) == 2 * 2 * 2 * 10
    keys = {(r["run"], r["method"], r["seed"], r["round"]) for r in rows}
    assert len(keys) == len(rows)
    record = run.rounds["convert"][3][5]
    row = next(r for r in rows if (r["method"], r["seed"], r["round"]) == ("convert", "3", str(6)))
    assert float(row["accuracy"]) == record.accuracy
    assert float(row["affected_accuracy"]) == record.affected_accuracy
    assert int(row["arrivals"]) == record.arrivals
    assert {r["accuracy"] for r in rows if int(r["round"]) % 2} == {""}


def test_a_folder_with_nothing_but_its_summary_shows_that(fake_run):
    folder = fake_run(rounds=10, seeds=(0,), methods=("unweighted",))
    shutil.rmtree(folder / "rounds")
    run = read_run(folder)
    assert run.finished
    assert [str(one) for one in run.missing] == ["unweighted, seed 0: all 10 rounds"]
