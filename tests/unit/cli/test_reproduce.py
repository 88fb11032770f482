"""`unstale reproduce`: the list, one item in a smoke run, and wrong usage."""

import json
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def test_the_list_has_every_table_and_figure(unstale):
    done = unstale("reproduce")
    assert done.code == 0
    assert done.out == unstale("reproduce", "--list").out
    for words in ("Table 21", "Figure 17", "main_table", "smoke only", "a drawing"):
        assert words in done.out


def test_the_list_for_programs(unstale):
    rows = json.loads(unstale("reproduce", "--list", "--json").out)
    assert len(rows) == 38
    by_name = {row["name"]: row for row in rows}
    assert by_name["Table 9"]["item"] == "main_table"
    assert by_name["Table 6"]["item"] == "privacy_images"
    assert [r["name"] for r in rows if r["item"] is None] == ["Figure 2"]


def test_one_item_in_a_smoke_run(unstale, tmp_path):
    done = unstale("reproduce", "Table 15", "--smoke", "--out", "out")
    assert done.code == 0, done.err
    assert "Table 15: accuracy on the affected classes at the end, %" in done.out
    assert "which is no result" in done.out
    assert "run 1 of 2: mnist" in done.err
    assert "left)" in done.err
    assert (tmp_path / "out" / "weights" / "mnist" / "summary.json").is_file()
    again = unstale("reproduce", "weights", "--smoke", "--out", "out", "--json")
    assert "done before" in again.err
    found = json.loads(again.out)
    assert (found["item"], found["smoke"], found["makes"]) == ("weights", True, ["Table 15"])
    cell = found["tables"][0]["rows"]["weighted"][0]
    assert (cell["seeds"], cell["paper"]) == (1, 39.2)


def test_a_smoke_run_leaves_nothing_behind(unstale, tmp_path):
    assert unstale("reproduce", "weights", "--smoke", "--only", "mnist").code == 0
    assert list(tmp_path.iterdir()) == []


def test_kept_results_are_shown_without_a_run(unstale, tmp_path):
    done = unstale("reproduce", "uniqueness", "--table")
    assert done.code == 0
    assert "Table 8" in done.out
    assert "74.6" in done.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["main_tabel"], "Did you mean 'main_table'"),
        (["Figure 2"], "a drawing"),
        (["weights", "--size", "small"], "'full', 'cpu'"),
        (["weights", "--list"], "Leave out --list"),
        (["--keep"], "name an item"),
        (["weights", "--smoke", "--keep"], "no result"),
        (["weights", "--smoke", "--size", "cpu"], "without --smoke"),
        (["--size", "cpu", "--smoke"], "the NAME of an item"),
        (["staleness_impact", "--size", "cpu"], "has no CPU size"),
        (["weights", "--smoke", "--only", "mnits"], "Did you mean 'mnist'"),
        (["weights", "--smoke", "--seeds", "a"], "--seeds should be whole numbers"),
        (["--experiments", "."], "Get the repository's sources"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_wrong_usage(unstale, words, says):
    done = unstale("reproduce", *words)
    assert done.code == 2
    assert says in done.err


def test_missing_data_is_said_before_anything_runs(unstale, tmp_path):
    (tmp_path / "data").mkdir()
    done = unstale("reproduce", "weights", "--data", "data")
    assert done.code == 1
    assert "The files of data set 'mnist' should be under a data root" in done.err
    assert not (tmp_path / "runs").exists()


def test_a_stopped_item_says_how_to_go_on(unstale, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("unstale.reproduce.run.run_item", stop)
    monkeypatch.setattr("sys.argv", ["unstale", "reproduce", "weights", "--smoke"])
    done = unstale("reproduce", "weights", "--smoke")
    assert done.code == 1
    assert "Go on with: unstale reproduce weights --smoke" in done.err
