"""Tables that are written by hand name exactly what the code has."""

import ast
import dataclasses
import re
from pathlib import Path
from typing import get_args

import pytest
from doc_pages import ROOT, read, without_blocks

import unstale
from unstale import data
from unstale.data.checking import Status
from unstale.experiment.tuning.criteria import CRITERIA
from unstale.methods import METHODS, Convert
from unstale.methods.groups import groups_of
from unstale.notes import NOTE_KINDS
from unstale.reproduce import STATES
from unstale.reproduce.measures import FILE, MEASURES
from unstale.run_folder.schema import (
    Calibrated,
    Checked,
    Converted,
    FellBack,
    Measured,
    Nodes,
    OtherRecipe,
    Round,
    StoodIn,
)

SRC = Path(unstale.__file__).parent


def cells_of(text, head):
    """The first cell of every row of the table whose first column is called `head`."""
    cells, inside, found = [], False, 0
    for line in [*without_blocks(text).splitlines(), ""]:
        row = re.fullmatch(r"\|\s*(.*?)\s*\|.*", line)
        if row is None:
            inside = False
        elif row[1].lower() == head:
            inside, found = True, found + 1
        elif inside and not set(row[1]) <= set(":- "):
            cells.append(row[1])
    assert found == 1, f"one table should begin with the column '{head}', found {found}"
    return cells


def first_cells(text, head):
    """The code that each of these cells begins with."""
    found = (re.match(r"\[?`([^`]+)`", cell) for cell in cells_of(text, head))
    return [match[1] for match in found if match]


def refusal_codes():
    """The first argument of every call of `refuse` in the package."""
    calls = [
        node
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refuse"
    ]
    return {ast.literal_eval(call.args[0]) for call in calls}


def test_the_readme_lists_every_method():
    assert sorted(first_cells(read(ROOT / "README.md"), "method")) == sorted(METHODS)


def test_every_code_of_a_refusal_is_explained():
    assert sorted(first_cells(read(ROOT / "docs/server.md"), "code")) == sorted(refusal_codes())


def test_every_kind_of_note_is_explained():
    assert sorted(first_cells(read(ROOT / "docs/server.md"), "kind")) == sorted(NOTE_KINDS)


def test_every_field_of_a_rounds_line_is_explained():
    line = Round(
        1,
        method="convert",
        seed=0,
        converted=(Converted("a", 0.1, 12, warm=True),),
        fell_back=(FellBack("b", "why"),),
        gamma={"c": 0.5},
        measured=(Measured("d", 0.1, 0.2),),
        calibrated=(Calibrated("g", 12, 0.2, 0.1, 0.9),),
        other_recipes=(OtherRecipe("h", "adam", 1.5),),
        awaiting_fit=1,
        most_sent=3,
        absent=1,
        stand_ins=(StoodIn("e", 12),),
        checked=(Checked("f", 12, 0.1, 0.9),),
        step_seconds=0.1,
        oracle={
            f"{what}_{distance}": 0.1
            for what in ("stale", "compensated", "stand_in")
            for distance in ("cosine", "l1")
        },
        metrics={"f1": 0.5},
        nodes=Nodes(),
    )
    cells = cells_of(read(ROOT / "docs/experiments.md"), "field")
    assert sorted(re.findall("`([^`]+)`", " ".join(cells))) == sorted(line.to_json())


def test_every_group_of_convert_is_explained():
    groups = first_cells(read(ROOT / "docs/conversion.md"), "group")
    assert groups == list(groups_of(Convert))


def test_every_setting_of_a_server_is_explained():
    settings = {field.name for field in dataclasses.fields(unstale.ServerSettings)}
    assert set(first_cells(read(ROOT / "docs/server.md"), "setting")) == settings


def test_the_glossary_is_in_order():
    words = re.findall(r"^## (.+)$", read(ROOT / "docs/glossary.md"), re.MULTILINE)
    assert len(words) > 50
    assert words == sorted(words, key=lambda word: word.lower().replace("γ (", ""))


def test_every_criterion_of_tuning_is_explained():
    text = read(ROOT / "docs/experiments.md")
    assert first_cells(text, "criterion") == list(CRITERIA)


def test_every_data_set_has_its_source():
    assert first_cells(read(ROOT / "docs/data.md"), "data set") == list(data.names())


def test_every_status_of_data_is_explained():
    assert first_cells(read(ROOT / "docs/data.md"), "status") == list(get_args(Status))


def test_a_missing_row_is_found():
    text = "| Method | does |\n| --- | --- |\n| [`a`](x.md) | y |\n| `b` | z |\n\n| other |\n|--|\n"
    assert first_cells(text, "method") == ["a", "b"]
    with pytest.raises(AssertionError, match="one table"):
        first_cells(text, "code")


def test_states_and_measures_of_reproduce():
    page = read(ROOT / "docs/reproduce.md")
    states = [cell.strip("`") for cell in cells_of(page, "state")]
    assert states == list(STATES)
    measures = [name for cell in cells_of(page, "measure") for name in re.findall(r"`(\w+)`", cell)]
    assert measures == [*MEASURES, FILE]
