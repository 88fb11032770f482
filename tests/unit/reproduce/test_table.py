"""Tables from run folders: figures worked out by hand, beside the paper's numbers."""

import json

import pytest
from kept_runs import ROWS, write_run

from unstale.reproduce import kept_places, read_catalogue, state_of, tables_of
from unstale.reproduce.measures import MEASURES, measure_of, values_in
from unstale.reproduce.table import Figure
from unstale.run_folder import Round


def test_a_table_has_mean_and_spread_beside_the_papers_number(experiments):
    item = read_catalogue(experiments).find("small")
    write_run(experiments / "small" / "results" / "first", ROWS)
    (table,) = tables_of(item, lambda part: kept_places(item, part))
    assert table.cells() == [
        ["", "τ = 40", "paper", "τ = 10", "paper"],
        ["unweighted", "50.0 ± 10.0", "57.4", "not run", "72.6"],
        ["first_order", "56.7 ± 5.8", "–", "not run", "–"],
    ]
    assert table.markdown().splitlines()[:3] == [
        "| | τ = 40 | paper | τ = 10 | paper |",
        "| --- | --- | --- | --- | --- |",
        "| `unweighted` | 50.0 ± 10.0 | 57.4 | not run | 72.6 |",
    ]
    first = table.to_json()["rows"]["unweighted"][0]
    assert first == {
        "mean": pytest.approx(50),
        "spread": pytest.approx(10),
        "seeds": 3,
        "paper": 57.4,
    }


def test_improvement_and_time_compare_seed_by_seed(tmp_path):
    folder = write_run(tmp_path / "r", ROWS)
    improvement = MEASURES["improvement"].of(folder)
    assert improvement["convert"] == pytest.approx([40, 50, 100 / 3])
    assert improvement["unweighted"] == pytest.approx([0, 0, 0])
    time = MEASURES["time"].of(folder)
    assert time["unweighted"] == pytest.approx([200, 200])  # the third seed never holds it
    assert time["first_order"] == []
    assert time["convert"] == pytest.approx([100, 100, 100])


def test_a_target_that_is_not_held_is_said(experiments):
    path = experiments / "small" / "item.toml"
    text = path.read_text(encoding="utf-8").replace("affected_accuracy", "time")
    path.write_text(text + "convert = []\n", encoding="utf-8")
    item = read_catalogue(experiments).find("small")
    write_run(experiments / "small" / "results" / "first", ROWS)
    (table,) = tables_of(item, lambda part: kept_places(item, part))
    assert [row[1] for row in table.cells()[1:]] == [
        "200 ± 0 (2 of 3 seeds)",
        "never",
        "100 ± 0",
    ]


def test_errors_are_means_over_the_second_half(tmp_path):
    folder = write_run(tmp_path / "r", {"convert": [(0.7, 20)]}, rounds=4)
    values = [0.9, 0.9, 0.1, None]
    lines = [Round(n, oracle={"compensated_l1": v}) for n, v in enumerate(values, start=1)]
    path = folder.lines_path("convert", 10)
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line.to_json()) + "\n" for line in lines))
    assert measure_of("l1_error").of(folder) == {"convert": [pytest.approx(0.1)]}
    assert measure_of("cosine_error").of(folder) == {"convert": []}


def test_one_seed_has_no_spread_and_none_no_figure():
    assert Figure.of([61.25]).text(1) == "61.2"
    assert Figure.of([]) is None


def test_values_of_files(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"about": {}, "mnist, all": {"rounds": {"20": {"accuracy": 0.6}}}}))
    files = [path, tmp_path / "missing.json"]
    assert values_in(files, "*/rounds/20/accuracy") == [60.0]
    assert values_in(files, "*/rounds/20/accuracy", scale=1) == [0.6]
    assert values_in(files, "*/rounds/800/accuracy") == []


def test_states_follow_what_is_kept(experiments):
    catalogue = read_catalogue(experiments)
    item, shared = catalogue.find("small"), catalogue.find("shared")
    entry = catalogue.entry("one")
    results = experiments / "small" / "results"
    assert state_of(entry, item)[0] == "smoke only"
    write_run(results / "first", ROWS)
    assert state_of(entry, item) == ("partly", "1 of 2 runs are kept at full size")
    assert state_of(catalogue.entry("fig"), shared)[0] == "full size"  # a run of both
    write_run(results / "second", ROWS, rounds=39)
    assert state_of(entry, item) == ("partly", "1 of 2 runs are kept at full size")
    (results / "second" / "summary.json").write_text(
        (results / "first" / "summary.json").read_text()
    )
    assert state_of(entry, item) == ("full size", "")
    assert state_of(catalogue.entry("none"), None) == ("not built", "Needs a telescope.")


def test_results_from_before_count_in_part(experiments):
    path = experiments / "small" / "item.toml"
    path.write_text('older = "defaults changed"\n' + path.read_text(encoding="utf-8"), "utf-8")
    catalogue = read_catalogue(experiments)
    item, entry = catalogue.find("small"), catalogue.entry("one")
    assert state_of(entry, item)[0] == "smoke only"
    for name in ("first", "second"):
        write_run(experiments / "small" / "results" / name, ROWS)
    assert state_of(entry, item) == ("partly", "defaults changed")
