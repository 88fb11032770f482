import json
import re

import pytest

from unstale.report.html.page import build_page
from unstale.report.html.summary_table import explain_saved, explain_time, summary_table
from unstale.run_folder import Lines

SMALL = {"rounds": 30, "seeds": (0, 1), "methods": ("no_delay", "unweighted", "convert")}


@pytest.fixture
def edited(fake_run, context_of):
    """Return a function that gives the context of a run whose summary was edited."""

    def make(change=lambda summary: None, **more):
        folder = fake_run(**{**SMALL, **more})
        path = folder / "summary.json"
        summary = json.loads(path.read_text())
        change(summary)
        path.write_text(json.dumps(summary))
        return context_of(folder)

    return make


def told(**by_label):
    """Return a change of a summary that sets figures of methods."""

    def change(summary):
        for label, figures in by_label.items():
            summary["methods"][label] |= figures

    return change


def cells(context, title):
    """The cells of one column by method."""
    table = summary_table(context)
    at = [column.title for column in table.columns].index(title)
    return {row.head: row.cells[at] for row in table.rows}


def test_time_has_a_spread_and_says_in_how_many_seeds(edited):
    held = {"held_from": 143.4, "held_seeds": 2, "spread": {"held_from": 8.2}}
    some = {"held_from": 49.0, "held_seeds": 1, "spread": {"held_from": None}}
    never = {"held_from": None, "held_seeds": 0}
    found = cells(edited(told(no_delay=held, unweighted=some, convert=never)), "Target held")
    assert (found["no_delay"].text, found["no_delay"].spread) == ("143", "8")
    assert found["no_delay"].note == ""
    assert (found["unweighted"].text, found["unweighted"].note) == ("49", "1 of 2 seeds")
    assert (found["convert"].text, found["convert"].quiet) == ("not held", True)


def test_the_head_and_the_note_say_what_time_is(edited):
    context = edited(told(convert={"share_saved": 0.25, "saved_seeds": 2}))
    said = (
        "Target held: the round from which accuracy in the affected classes, as a mean of the "
        "last 10 rounds, is at least 0.80 to the end. Over the seeds that do so."
    )
    assert explain_time(context) == said
    page = build_page(context)
    heads = dict(re.findall(r'<th scope="col" class="num" title="([^"]+)">([^<]+)<', page))
    assert heads[said] == "Target held"
    assert heads[explain_saved(context)] == "Rounds saved"
    note = page[page.index("Target held: the round", page.index("</table>")) :]
    assert "those that unweighted takes to that" in note
    assert "at most 0.05 below it in all classes (for time: in the affected ones, too)" in note


def test_rounds_saved_are_shown_if_there_are_any(edited):
    assert "Rounds saved" not in {c.title for c in summary_table(edited()).columns}
    saved = {"share_saved": 0.346, "saved_seeds": 1, "spread": {"share_saved": None}}
    loses = {"share_saved": -0.3, "saved_seeds": 2, "spread": {"share_saved": 0.041}}
    found = cells(edited(told(convert=saved, no_delay=loses)), "Rounds saved")
    assert (found["convert"].text, found["convert"].note) == ("35%", "1 of 2 seeds")
    assert (found["no_delay"].text, found["no_delay"].spread) == ("-30%", "4%")
    assert (found["unweighted"].text, found["unweighted"].quiet) == ("–", True)


def marked(context):
    table = summary_table(context)
    return {
        row.head: {c.title for c, cell in zip(table.columns, row.cells, strict=True) if cell.best}
        for row in table.rows
    }


def figures(accuracy, affected, mean, held):
    return {
        "accuracy": accuracy, "affected_accuracy": affected, "affected_mean": mean,
        "held_from": held, "held_seeds": 2,
    }  # fmt: skip


def test_a_method_that_lost_the_other_classes_is_not_marked(edited):
    context = edited(
        told(unweighted=figures(0.2, 1.0, 1.0, 3.0), convert=figures(0.9, 0.9, 0.8, 20.0))
    )
    assert marked(context) == {
        "no_delay": set(), "unweighted": set(),
        "convert": {"Affected class", "All classes", "Target held"},
    }  # fmt: skip


def test_a_method_that_diverged_is_not_marked(edited):
    lost = {**figures(0.95, 0.95, 0.95, 3.0), "diverged": 1}
    context = edited(told(unweighted=lost, convert=figures(0.9, 0.9, 0.8, 20.0)))
    assert marked(context)["unweighted"] == set()
    assert marked(context)["convert"] == {"Affected class", "All classes", "Target held"}


def test_ties_are_marked_alike(edited):
    context = edited(
        told(unweighted=figures(0.9001, 0.9, 0.8, 20.2), convert=figures(0.9, 0.9, 0.8, 20.0))
    )
    assert marked(context)["unweighted"] == marked(context)["convert"] != set()


def old_format(summary):
    summary["format"] = 1
    for key in ("window", "reference"):
        del summary[key]
    for found in summary["methods"].values():
        for name in ("held_from", "held_seeds", "rounds_saved", "share_saved", "saved_seeds"):
            del found[name]
        found["rounds_to_target"] = 7.0


def test_time_of_a_run_of_before_is_computed_from_its_rounds(edited):
    more = {"rounds": 100, "methods": ("no_delay", "unweighted", "weighted", "convert")}
    now = cells(edited(**more), "Target held")
    before = cells(edited(old_format, **more), "Target held")
    assert now["convert"].text.isdigit()
    assert before == now


def test_without_rounds_a_run_of_before_has_a_dash(edited, fake_run, context_of):
    folder = fake_run(**SMALL)
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    old_format(summary)
    path.write_text(json.dumps(summary))
    for lines in (folder / "rounds").glob("*/*.jsonl"):
        Lines(lines).cut(0)
    found = cells(context_of(folder), "Target held")
    assert {(cell.text, cell.quiet) for cell in found.values()} == {("–", True)}
