"""What the pages say of Flower is so: diffs are those of the example, and no code is missing."""

import ast
from pathlib import Path
from typing import get_args

import pytest
from doc_pages import ROOT, blocks_of, read
from test_tables import first_cells

import unstale

EXAMPLE = ROOT / "examples" / "flower" / "slow_nodes"
FLOWER = Path(unstale.__file__).parent / "flower"
PAGES = [ROOT / "README.md", ROOT / "docs/flower.md", ROOT / "examples/flower/README.md"]

# Of the server's own codes, those that a reply with the right names, shapes and types can meet.
OF_THE_SERVER = {"num_examples", "not_finite", "norm"}


def is_part(hunk, lines):
    """Return whether the lines of a hunk are found one after the other, others between them."""
    rest = iter(lines)
    return all(line in rest for line in hunk)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_diffs_are_those_of_the_example(page):
    before, after = (
        (EXAMPLE / name).read_text("utf-8").splitlines()
        for name in ("plain_server_app.py", "server_app.py")
    )
    diffs = [block.body for block in blocks_of(read(page)) if block.language == "diff"]
    assert diffs
    for hunk in "@@\n".join(diffs).split("@@\n"):
        lines = hunk.splitlines()
        assert is_part([line[1:] for line in lines if not line.startswith("+")], before)
        assert is_part([line[1:] for line in lines if not line.startswith("-")], after)


def literal_arguments(*functions):
    """The first arguments of all calls of these functions in the engine."""
    return {
        node.args[0].value
        for path in FLOWER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in functions
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def rows(head):
    text = read(ROOT / "docs" / "flower.md").replace("`, `", "` |\n| `")  # one code a row
    return sorted(first_cells(text, head))


def test_every_code_of_a_refusal_is_explained():
    assert rows("code") == sorted(literal_arguments("_refuse", "RefusedReplyError") | OF_THE_SERVER)


def test_every_outcome_is_explained():
    pytest.importorskip("flwr")
    from unstale.flower.messages import Outcome

    assert rows("outcome") == sorted({*get_args(Outcome)} - {"answered"})


def test_every_event_is_explained():
    logged = literal_arguments("append", "note", "_note") | {"started", "version"}  # dicts
    assert {"refused", "failed"} <= {*rows("event")}  # passed on by a variable
    assert logged <= {*rows("event")}


def test_a_line_that_is_not_there_is_found():
    assert is_part(["a", "c"], ["a", "b", "c"])
    assert not is_part(["c", "a"], ["a", "b", "c"])
