"""The section on tuning: a small table for each method that was tuned."""

import dataclasses
import json
import re

from unstale.report import read_run
from unstale.report.context import Context
from unstale.report.html import build_page
from unstale.report.html.tuning_tables import MAX_ROWS, tuning_section
from unstale.run_folder.tuning import Try, TunedMethod, TuningRecord, write_tuning

SMALL = {"rounds": 20, "methods": ("no_delay", "weighted", "first_order"), "seeds": (10,)}
HOSTILE = "<script>alert(1)</script>"


def tried(lam, score, **more):
    figures = {"affected_mean": 0.25, "accuracy_mean": 0.75}
    return Try({"lam": lam}, score, figures, **more)


TRIES = (tried(1, 0.5), tried(5.0, 0.9), tried(25, None, fault="diverged: in round 4"))
METHOD = TunedMethod("first_order", {"lam": [1, 5, 25]}, 3, TRIES, chosen=1)
RECORD = TuningRecord(
    "affected_and_overall", "the mean of two", (0, 1), 3, {"first_order": METHOD}, finished=True
)


def page_of(folder):
    return build_page(Context.of(read_run(folder)))


def section_of(page):
    found = re.search(r'<section id="tuning">.*?</section>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split()) if found else None


def with_record(folder, record=RECORD):
    write_tuning(folder / "tuning.json", record)
    return folder


def test_a_run_without_lists_has_no_section(fake_run):
    assert section_of(page_of(fake_run(**SMALL))) is None


def test_what_was_tried_and_chosen(fake_run):
    page = page_of(with_record(fake_run(**SMALL)))
    text = section_of(page)
    assert "Settings were chosen on seeds 0, 1, which are not reported here" in text
    assert "at most 3 were tried" in text
    assert "( affected_and_overall ): the mean of two, mean over seeds." in text
    assert "first_order tried: all 3" in text
    assert "2 5 0.900 0.250 0.750 chosen" in text
    assert "3 25 – 0.250 0.750 diverged: in round 4" in text
    assert "Not tuned, at the settings of the file: no_delay , weighted ." in text
    assert page.index('id="summary"') < page.index('id="tuning"') < page.index('id="clients"')


def test_only_the_chosen_try_is_marked(fake_run):
    run = read_run(with_record(fake_run(**SMALL)))
    (found,) = tuning_section(run).tables
    marks = [[cell.best for cell in row.cells] for row in found.table.rows]
    assert marks == [[False] * 5, [True, True, False, False, False], [False] * 5]


def test_a_setting_that_a_listed_try_leaves_out_is_the_methods_own(fake_run):
    tries = (Try({}, 0.1), Try({"b": [0, 60]}, 0.2), Try({"a": "x"}, 0.3))
    method = TunedMethod("first_order", [{}, {"b": [0, 60]}, {"a": "x"}], 3, tries, chosen=2)
    record = dataclasses.replace(RECORD, methods={"first_order": method})
    run = read_run(with_record(fake_run(**SMALL), record))
    (found,) = tuning_section(run).tables
    assert [column.title for column in found.table.columns][:3] == ["b", "a", "Score"]
    rows = [[cell.text for cell in row.cells[:2]] for row in found.table.rows]
    assert rows == [["own", "own"], ["[0, 60]", "own"], ["own", '"x"']]


def test_many_tries_are_cut_and_the_best_stay(fake_run):
    tries = tuple(tried(at, at / 100) for at in range(50))
    method = TunedMethod("first_order", {"lam": list(range(900))}, 900, tries, chosen=49)
    record = dataclasses.replace(RECORD, budget=50, methods={"first_order": method})
    run = read_run(with_record(fake_run(**SMALL), record))
    (found,) = tuning_section(run).tables
    assert found.extent == "50 of 900, drawn at random"
    assert [row.head for row in found.table.rows] == [str(at) for at in range(21, 51)]
    assert (len(found.table.rows), found.left_out) == (MAX_ROWS, 20)


def test_all_diverged(fake_run):
    method = dataclasses.replace(METHOD, tries=TRIES[2:], chosen=None)
    record = dataclasses.replace(RECORD, methods={"first_order": method})
    text = section_of(page_of(with_record(fake_run(**SMALL), record)))
    assert "No try was sound: the method ran with its own settings." in text


def test_of_another_run(fake_run):
    record = dataclasses.replace(RECORD, elsewhere=("latency.rounds", "rounds"))
    text = section_of(page_of(with_record(fake_run(**SMALL), record)))
    assert "chosen in another run, of an experiment that differs in latency.rounds, rounds" in text


def test_while_tries_are_under_way(fake_run):
    folder = fake_run(
        **SMALL, finished=False, reached=dict.fromkeys([(m, 10) for m in SMALL["methods"]], 0)
    )
    method = dataclasses.replace(METHOD, tries=tuple(Try(t.settings) for t in TRIES), chosen=None)
    record = dataclasses.replace(RECORD, methods={"first_order": method}, finished=False)
    text = section_of(page_of(with_record(folder, record)))
    assert "Settings are being chosen on seeds 0, 1" in text
    assert "No try was sound" not in text


def test_lists_that_were_not_used_are_said(fake_run):
    folder = fake_run(**SMALL)
    config = json.loads((folder / "config.json").read_text())
    config["methods"][2]["tune"] = {"lam": [1, 2]}
    (folder / "config.json").write_text(json.dumps(config))
    text = section_of(page_of(folder))
    assert "first_order lists settings to try; --tune chooses from them." in text
    assert "chosen on" not in text


def test_foreign_text_stays_text_and_unknown_labels_are_left_out(fake_run):
    method = dataclasses.replace(
        METHOD, tries=(Try({HOSTILE: HOSTILE}, 0.5, fault=HOSTILE),), chosen=0
    )
    record = dataclasses.replace(
        RECORD, says=HOSTILE, methods={"first_order": method, HOSTILE: METHOD}
    )
    assert HOSTILE not in page_of(with_record(fake_run(**SMALL), record))
