"""The section on standing in: there only if anybody was stood in for, and counted nowhere else."""

import re
from html import unescape

import pytest
from fake_stand_ins import add_stand_ins

from unstale.report.html import build_page
from unstale.report.html.stand_in_tables import MIN_CLIENTS, stand_in_table, stood_in_table
from unstale.report.png import draw_plots

SMALL = {"rounds": 60, "methods": ("no_delay", "unweighted", "convert"), "clients": 30}


def section(page, key):
    found = re.search(rf'<section id="{key}">.*?</section>', page, re.DOTALL)
    without_data = re.sub(r"<script.*?</script>", "", found[0], flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without_data)).split())


def cells(table):
    return [(row.head, *(cell.text for cell in row.cells)) for row in table.rows]


def test_the_section_is_there_only_if_there_were_stand_ins(fake_run, context_of):
    folder = fake_run(**SMALL)
    context = context_of(folder)
    assert 'id="standing"' not in build_page(context)
    assert "Stood in" not in section(build_page(context), "summary")
    context = context_of(add_stand_ins(folder))
    page = build_page(context)
    keys = re.findall(r'<section id="([a-z]+)">', page)
    assert keys.index("standing") == keys.index("handling") + 1
    assert "Stood in per seed" in section(page, "summary")
    charts = re.findall(r'id="chart-(stand_in_[a-z0-9_]+)"', page)
    assert charts == [
        *("stand_in_age", "stand_in_checked", "stand_in_truth"),
        *("stand_in_checked_l1", "stand_in_truth_l1"),
    ]
    assert set(charts) <= set(draw_plots(context))


def test_what_the_server_did_with_updates_leaves_them_out(fake_run, context_of):
    folder = fake_run(**SMALL)
    before = section(build_page(context_of(folder)), "handling")
    assert section(build_page(context_of(add_stand_ins(folder))), "handling") == before
    assert "stood in" not in before


def test_no_oracle_no_true_error(fake_run, context_of):
    folder = add_stand_ins(fake_run(**SMALL), oracle=False)
    text = section(build_page(context_of(folder)), "standing")
    assert "rror found" in text
    assert "rue error" not in text


@pytest.mark.parametrize(
    ("method", "said"),
    [("convert", "place: today's model, trained on the client's surrogate. No client"),
     ("memory", "place: the client's last update once more. No client"),
     ("mine", "an update of its own in their place. No client")],
)  # fmt: skip
def test_the_section_says_what_a_method_puts_in_a_clients_place(fake_run, context_of, method, said):
    folder = add_stand_ins(fake_run(**SMALL, seeds=(0,)))
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"name": "convert"', f'"name": "{method}"'))
    assert said in section(build_page(context_of(folder)), "standing")


def test_tables_by_hand(fake_run, context_of):
    folder = add_stand_ins(fake_run(**SMALL, seeds=(4, 7)), at_once=1, clients=("a", "b"))
    run = context_of(folder).run
    # Rounds 42 to 60 of each seed: one stand-in each, of the ages 41 to 59; two absent, and one
    # in each of the 41 rounds before; checked in rounds 50 and 60.
    (row,) = cells(stand_in_table(run))
    label, absent, stood_in, age, oldest, weight, scale, checked, error, l1, truth, true_l1 = row
    assert (label, absent, stood_in, age, oldest) == ("convert", "79", "19", "50.0", "59")
    assert (weight, scale, checked) == ("1.00", "1.00", "2")
    assert 0.02 <= float(error) <= 0.04
    assert 0.01 <= float(truth) <= 0.06
    assert float(l1) == pytest.approx(5 * float(error), abs=3e-4)
    assert float(true_l1) == pytest.approx(5 * float(truth), abs=3e-4)
    table = cells(stood_in_table(run))
    # Every other round, a first; in all of them from version 0.
    assert [row[:8] for row in table] == [
        ("convert", "a", "10", "50.0", "59", "1.00", "1.00", "1"),
        ("convert", "b", "9", "50.0", "58", "1.00", "1.00", "1"),
    ]
    assert [row[8] for row in table] == ["2", "0"]
    assert float(table[0][10]) == pytest.approx(5 * float(table[0][9]), abs=3e-4)
    assert table[1][9:] == ("–", "–")
    assert "Who was stood in for seed 4" in section(build_page(context_of(folder)), "standing")


def test_many_clients_are_summed_up(fake_run, context_of):
    methods = ("convert", *(f"variant-{i}" for i in range(12)))
    folder = fake_run(rounds=60, seeds=(0,), methods=methods, clients=10)
    add_stand_ins(folder, methods=methods, clients=tuple(map(str, range(9))), at_once=1)
    table = cells(stood_in_table(context_of(folder).run))
    assert len(table) == len(methods) * (MIN_CLIENTS + 1)
    assert table[MIN_CLIENTS][1:3] == ("6 more", "12")
    assert sum(int(row[2]) for row in table[: MIN_CLIENTS + 1]) == 19


def test_foreign_names_stay_text(fake_run, context_of):
    name = "</td><script>alert(1)</script>"
    folder = add_stand_ins(fake_run(**SMALL, seeds=(0,)), clients=(name,))
    page = build_page(context_of(folder))
    assert "<script>alert" not in page
    assert name in section(page, "standing")


def test_an_unfinished_run_counts_what_is_there(fake_run, context_of):
    folder = add_stand_ins(fake_run(**SMALL, finished=False, reached={("convert", 1): 0}))
    context = context_of(folder)
    (method,) = [m for m in context.run.methods if m.label == "convert"]
    assert context.summary.value(method, "stand_ins") == 38  # two in each of rounds 42 to 60
    text = section(build_page(context), "standing")
    assert "Who was stood in for" in text
