import pytest

from unstale.errors import RunError
from unstale.report import write_report

SMALL = {"rounds": 6, "seeds": (0,), "methods": ("no_delay", "unweighted"), "clients": 10}


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_report_is_added_and_nothing_else_changes(fake_run):
    folder = fake_run(**SMALL)
    before = contents(folder)
    report = write_report(folder)
    after = contents(folder)
    assert report == folder / "report.html"
    assert {p: after[p] for p in before} == before
    added = {str(p) for p in after.keys() - before.keys()}
    assert "report.html" in added
    assert "plots/affected_accuracy.png" in added
    assert all(name == "report.html" or name.startswith("plots/") for name in added)
    assert all(name.endswith((".html", ".png")) for name in added)


def test_the_same_folder_gives_the_same_report(fake_run):
    folder = fake_run(**SMALL)
    write_report(folder)
    first = contents(folder)
    write_report(folder)
    assert contents(folder) == first


def test_a_report_that_fails_leaves_the_last_one(fake_run):
    folder = fake_run(**SMALL)
    report = write_report(folder)
    before = report.read_bytes()
    (folder / "rounds" / "unweighted" / "seed-0.jsonl").write_text("{\n{}\n")
    with pytest.raises(RunError, match="line 1 is damaged"):
        write_report(folder)
    assert report.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_said(fake_run):
    folder = fake_run(**SMALL)
    (folder / "plots").write_text("in the way")
    with pytest.raises(RunError, match="The report should be written into"):
        write_report(folder)
    assert not (folder / "report.html").exists()
