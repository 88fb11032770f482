"""The section on calibration: what was found by lag, and which shares were used."""

import dataclasses
import re
from html import unescape

from unstale.report.html import build_page
from unstale.report.html.calibration_table import calibration_table, candidates_used
from unstale.run_folder import Lines
from unstale.run_folder.schema import Calibrated

SMALL = {"rounds": 60, "methods": ("no_delay", "unweighted", "convert"), "clients": 30}
HOSTILE = '<script>alert("x")</script>'


def add_calibration(folder):
    """Let `convert` compare a fast client every tenth round, and a slow one once."""
    for path in sorted((folder / "rounds" / "convert").glob("seed-*.jsonl")):
        file = Lines(path)
        lines = [_calibrated(line) for line in file.read()]
        file.cut(0)
        for line in lines:
            file.append(line)
    return folder


def _calibrated(line):
    found = ()
    if line.number % 10 == 0:
        found = (Calibrated(HOSTILE, line.number // 2, 0.2, 0.1 * line.number / 10, 0.5),)
    if line.number == 55:
        found = (Calibrated("slow", 90, 0.4, None, None, late=True),)
    notes = {**line.notes, "calibrated": len(found), "probed": int(line.number == 1)}
    shared = tuple(dataclasses.replace(one, share=0.75) for one in line.converted)
    return dataclasses.replace(line, calibrated=found, converted=shared, notes=notes)


def section(page, key):
    found = re.search(rf'<section id="{key}">.*?</section>', page, re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def test_the_section_is_there_only_if_something_was_compared(fake_run, context_of):
    folder = fake_run(**SMALL, seeds=(0,))
    before = build_page(context_of(folder))
    assert 'id="calibration"' not in before
    page = build_page(context_of(add_calibration(folder)))
    keys = re.findall(r'<section id="([a-z]+)">', page)
    assert keys.index("calibration") == keys.index("fit") + 1
    assert HOSTILE not in page
    text = section(page, "calibration")
    assert "a mean share of 0.75 in" in text
    assert "at least 0.75" in text
    assert section(page, "handling") == section(before, "handling"), "no update was treated"


def test_rows_are_by_whose_and_by_lag(fake_run, context_of):
    folder = add_calibration(fake_run(**SMALL, seeds=(0, 1)))
    table = calibration_table(context_of(folder).run)
    rows = [(row.head, *(cell.text for cell in row.cells)) for row in table.rows]
    assert rows == [
        ("convert", "fast", "1 to 5", "2", "0.2000", "0.1000", "0.50"),
        ("convert", "fast", "6 to 10", "2", "0.2000", "0.2000", "0.50"),
        ("convert", "fast", "11 to 20", "4", "0.2000", "0.3500", "0.50"),
        ("convert", "fast", "21 to 40", "4", "0.2000", "0.5500", "0.50"),
        ("convert", "slow", "over 80", "2", "0.4000", "–", "–"),
    ]


def test_candidates_have_rows_of_their_own_and_are_counted(fake_run, context_of):
    folder = add_calibration(fake_run(**SMALL, seeds=(0,)))
    (path,) = (folder / "rounds" / "convert").glob("seed-0.jsonl")
    file = Lines(path)
    lines = list(file.read())
    file.cut(0)
    later = [line for line in lines if line.number > 50]
    for line in lines:
        if line in later:
            line = dataclasses.replace(
                line,
                converted=tuple(dataclasses.replace(c, by="hard") for c in line.converted),
                calibrated=tuple(dataclasses.replace(c, by="hard") for c in line.calibrated),
            )
        file.append(line)
    context = context_of(folder)
    clients = {row.cells[0].text for row in calibration_table(context.run).rows}
    assert clients == {"fast", "fast, hard", "slow, hard"}
    before = sum(len(line.converted) for line in lines if line not in later)
    after = sum(len(line.converted) for line in later)
    assert candidates_used(context.run) == [("convert", [("", before), ("hard", after)])]
    text = section(build_page(context), "calibration")
    assert f"fitted by the settings as they are in {before}, hard in {after}." in text
