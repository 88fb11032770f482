"""Every figure on a page is found in a result file; and what the check itself finds."""

import json
import textwrap

import pytest
from quoted import check, sources
from quoted.check import pages, problems_of, rewritten
from quoted.markers import MarkError, marks_of, numbers_of


@pytest.fixture(params=pages(), ids=lambda p: p.relative_to(sources.ROOT).as_posix())
def page(request):
    return request.param


def test_every_figure_has_its_source(page):
    assert [str(problem) for problem in problems_of(page)] == []


# --- the check itself, on pages of a small repository


@pytest.fixture
def problems(tmp_path, monkeypatch):
    """Write a page beside a result file and a script, and return what is wrong with it."""
    for module in (sources, check):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    found = {"methods": {"convert": {"end": 0.92845, "spread": 0.0049, "rounds": 60.3}}}
    found |= {"seeds": [0.92, 0.94], "share": 0.63, "name": "digits"}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.json").write_text(json.dumps(found))
    (tmp_path / "results" / "log.txt").write_text(
        "## one\nseed 3   0.1234 loss 5e-05\n## two\nseed 3   0.4567\n"
    )
    (tmp_path / "other.json").write_text(json.dumps(found))
    (tmp_path / "beside.py").write_text("VALUES = [0.014, 0.034]\n")
    (tmp_path / "tables.py").write_text(
        textwrap.dedent(
            """
            import json
            from beside import VALUES

            def gaps(*which):
                return [VALUES[int(i)] for i in which]

            def table(path):
                return f"| a |\\n| --- |\\n| {json.loads(path.read_text())['share']:.2f} |"

            def _hidden():
                return 1
            """
        )
    )

    def write(text):
        page = tmp_path / "README.md"
        page.write_text(textwrap.dedent(text))
        return [problem.message for problem in problems_of(page)]

    return write


KEY = "methods/convert/end"
MADE = "<!-- made by: tables.py table results/a.json -->"


@pytest.mark.parametrize(
    "text",
    [
        f"Ends at 0.928<!-- from: results/a.json {KEY} -->.",
        f"Ends at 0.9<!-- from: results/a.json {KEY} -->.",
        "0.928 ± 0.005<!-- from: results/a.json methods/convert/end methods/convert/spread -->",
        "By seed 0.92 and 0.94<!-- from: results/a.json seeds -->, in 60 rounds.",
        "Saves 63 %<!-- from: results/a.json share --> of them.",
        "In 60 rounds<!-- from: results/a.json methods/convert/rounds -->.",
        "Within 0.014 at τ = 40 and 0.034<!-- from: tables.py gaps 0 1 --> at 100.",
        "| a |\n| --- |\n| 0.928<!-- from: results/a.json methods/convert/end --> |",
        f"{MADE}\n\n| a |\n| --- |\n| 0.63 |\n\n<!-- end -->",
        '0.123 and 0.00005<!-- found in: results/log.txt "one > seed 3" -->',
        "The paper has 0.28 and 93 %<!-- paper: 0.28 93 -->.",
        "Up to 256 MiB<!-- setting: 256 -->, 1,024 kB<!-- arithmetic: 1024 -->.",
    ],
)
def test_figures_with_their_source(problems, text):
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ends at 0.928.", "0.928 has no source."),
        ("It takes 5 s.", "5 s has no source."),
        ("Saves 63 to 70 %.", "63 % has no source."),
        ("It is 2.4 times smaller.", "2.4 times has no source."),
        ("| a |\n| --- |\n| 1.5 |", "1.5 has no source."),
        (f"At 0.929<!-- from: results/a.json {KEY} -->.", "should be 0.9284…; 0.92845 is not"),
        (f"0.928\n\nx<!-- from: results/a.json {KEY} -->", "0.92845 is not among them"),
        ("0.92 and 0.95<!-- from: results/a.json seeds -->", "should be 0.92, 0.94; 0.94 is not"),
        ("0.94 and 0.92<!-- from: results/a.json seeds -->", "should be 0.92, 0.94"),
        (f"0.411 of 0.928<!-- from: results/a.json {KEY} -->", "0.411 has no source."),
        ("64 %<!-- from: results/a.json share -->", "0.63 is not among them"),
        ("0.015<!-- from: tables.py gaps 0 -->", "0.014 is not among them"),
        ("0.457<!-- found in: results/log.txt 'one > seed 3' -->", "0.457 has no source."),
        ("0.457<!-- found in: results/log.txt 'seed 4' -->", "should have a line with 'seed 4'"),
        ("0.28<!-- paper: 0.29 -->", "0.29 is not among them"),
        ("0.28<!-- paper: -->", "should name the numbers"),
        ("0.9<!-- from: results/a.json methods/converted -->", "lacks `converted`"),
        ("0.9<!-- from: results/a.json name -->", "should be numbers, and is 'digits'"),
        ("0.9<!-- from: results/b.json x -->", "b.json should be a file of the repository"),
        (f"0.928<!-- from: other.json {KEY} -->", "should be in a folder `results`"),
        ("0.9<!-- from: tables.py _hidden -->", "should have a function `_hidden`"),
        ("0.9<!-- from: results/a.json -->", "a key of results/a.json should be named"),
        (f"{MADE}\n\n| a |\n| --- |\n| 0.64 |\n\n<!-- end -->",
         "this is not what `tables.py table results/a.json` makes"),
        (f"{MADE}\n\n| a |\n| --- |\n| 0.63 |\n<!-- end -->", "this is not what"),
        (f"{MADE}\n\n| a |", "should have an `<!-- end -->`"),
        ("0.9\n<!-- end -->", "should follow a `<!-- made by"),
        (f"0.928\n<!-- from: results/a.json {KEY} -->", "on the same line"),
        ("0.9<!-- from: results/a.json --x -->", "should not contain `--`"),
        ("0.9<!-- from results/a.json -->", "should be followed by a colon"),
    ],
)  # fmt: skip
def test_wrong_figures_and_markers_are_found(problems, text, message):
    assert [one for one in problems(text) if message in one]


@pytest.mark.parametrize(
    "text",
    [
        "PyTorch 2.13, Python 3.11, learning rate 0.01, Dirichlet(0.01), λ = 0.05, 95 % sparse",
        "`0.123` and $0.123$ and [a](b_0.123.md) and 64×64 and version 12 of 40",
        "```text\n0.123\n```\n\n    no figure here",
        "In `<!-- from: x.json y -->` a marker is shown, not used.",
        "64-32-10, 2.13.0, seed-0.jsonl, 1e-5, 10⁻⁴, 20·10⁻⁴",
    ],
)
def test_what_is_no_figure(problems, text):
    assert problems(text) == []


def test_numbers_are_read_as_they_are_written():
    found = numbers_of("−20 % of 1,234 is (-5.50) and **12 ms**, ~6.92 s; 3, 4 and 5 minutes")
    assert [(n.value, n.decimals, n.unit) for n in found] == [
        (-20.0, 0, "%"),
        (1234.0, 0, ""),
        (-5.5, 2, ""),
        (12.0, 0, "ms"),
        (6.92, 2, "s"),
        (3.0, 0, "minutes"),
        (4.0, 0, "minutes"),
        (5.0, 0, "minutes"),
    ]


def test_values_are_rounded_as_the_figure_is():
    (number,) = numbers_of("0.928")
    assert number.quotes(0.9284)
    assert number.quotes(0.9285)  # either neighbour of a half
    assert not number.quotes(0.9286)
    assert not number.quotes(-0.928)


def test_blocks_and_single_figures_are_written(problems, tmp_path):
    problems("")
    text = (
        "Ends at 0.111 of 40<!-- from: results/a.json methods/convert/end -->, "
        "saves 11 %<!-- from: results/a.json share -->, paper 0.28<!-- paper: 0.28 -->.\n\n"
        "<!-- made by: tables.py table results/a.json -->\n<!-- end -->\n"
    )
    after = rewritten(text, tmp_path)
    assert "Ends at 0.928 of 40<!--" in after
    assert "saves 63 %<!--" in after
    assert "-->\n\n| a |\n| --- |\n| 0.63 |\n\n<!-- end -->\n" in after
    assert problems(after) == []
    assert rewritten(after, tmp_path) == after


def test_scripts_beside_each_other_do_not_meet(problems, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "beside.py").write_text("VALUES = [0.5]\n")
    (other / "more.py").write_text(
        "from beside import VALUES\ndef first():\n    return VALUES[0]\n"
    )
    assert (
        problems("0.014<!-- from: tables.py gaps 0 -->, 0.50<!-- from: other/more.py first -->")
        == []
    )


def test_a_marker_in_code_is_none():
    assert marks_of("`<!-- from: a b -->`\n```markdown\n<!-- end -->\n```\n") == ([], [])
    with pytest.raises(MarkError):
        marks_of("<!-- end -->")
