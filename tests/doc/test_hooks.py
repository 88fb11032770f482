"""The hooks that make the pages: formulas as MathML, tables from the code."""

import importlib.util
import re

import pytest
from doc_pages import PAGES, ROOT, read, without_blocks

from unstale.methods import METHODS, Convert
from unstale.methods.groups import groups_of
from unstale.sim.latency import ParetoLatency

pytest.importorskip("mkdocs", reason="the pages are built with the extra unstale[docs]")


def hook(name):
    spec = importlib.util.spec_from_file_location(f"hook_{name}", ROOT / f"docs/hooks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


formulas, tables, offline = hook("formulas"), hook("tables"), hook("offline")


@pytest.mark.parametrize(
    ("tex", "mathml"),
    [
        (r"w_t", "<msub><mi>w</mi><mi>t</mi></msub>"),
        (r"e^{-a}", "<msup><mi>e</mi><mrow><mo>−</mo><mi>a</mi></mrow></msup>"),
        (r"x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
        (r"\frac{1}{\tau}", "<mfrac><mrow><mn>1</mn></mrow><mrow><mi>τ</mi></mrow></mfrac>"),
        (
            r"\hat\Delta_i",
            '<msub><mover accent="true"><mi>Δ</mi><mo stretchy="false">^</mo></mover>'
            "<mi>i</mi></msub>",
        ),
        (r"a<b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
    ],
)
def test_formulas_become_mathml(tex, mathml):
    assert formulas.to_mathml(tex) == f"<math><mrow>{mathml}</mrow></math>"


@pytest.mark.parametrize("tex", [r"\unknown", "{a", "a_", "a}", "x^"])
def test_a_formula_that_is_not_understood_fails(tex):
    with pytest.raises(ValueError, match="should be simple TeX"):
        formulas.to_mathml(tex)


FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$`])\$(?=\S)([^$\n`]+?)(?<=\S)\$", re.DOTALL)


def test_every_formula_of_methods_is_understood():
    found = 0
    for path in (ROOT / "src/unstale/methods").rglob("*.py"):
        found += len(_formulas(path.read_text(encoding="utf-8")))
    for path in PAGES:
        _formulas(without_blocks(read(path)))
    assert found >= 15


def _formulas(text):
    return [formulas.to_mathml(block or line) for block, line in FORMULA.findall(text)]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_table_of_a_page_is_made(path):
    made = tables.on_page_markdown(read(path))
    assert "<!-- table:" not in made


def test_tables_hold_what_the_code_has():
    assert all(f"[`{name}`](methods.md#{name})" in tables.make("methods", None) for name in METHODS)
    assert tables.settings_table(ParetoLatency).splitlines()[2].startswith('| `per` | `"job"` |')
    assert all(docs for docs in tables.field_docs(ParetoLatency).values())


def test_settings_in_groups_have_a_table_for_each_group():
    listed = tables.make("method_list", None)
    for name, group in groups_of(Convert).items():
        assert f"#### `[{name}]`" in listed
        for field in tables.dataclasses.fields(group):
            assert f"| `{field.name}` |" in listed
    assert "Inversion(" not in listed, "a group should not be shown as a default"


def test_every_setting_is_explained():
    classes = [cls for kinds in tables.SCENARIO_PARTS.values() for cls in kinds.values()]
    for spec in METHODS.values():
        classes += [spec.compensator, spec.aggregator, *groups_of(spec.compensator).values()]
    for cls in classes:
        fields = {field.name for field in tables.dataclasses.fields(cls)}
        assert fields <= set(tables.field_docs(cls)), f"a docstring under each field of {cls}"


@pytest.mark.parametrize(
    ("page", "loads"),
    [
        ('<script src="https://cdn.example/x.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example/css">', True),
        ('<link href="https://fonts.example" rel="preconnect">', True),
        ("@import url(https://fonts.example/css);", True),
        ('<script src="assets/x.js"></script><a href="https://example.org">a link</a>', False),
        (
            '<link rel="stylesheet" href="style.css"><link rel="canonical" href="https://a.b">',
            False,
        ),
    ],
)
def test_what_is_loaded_from_the_network_is_found(page, loads):
    assert bool(offline.LOADED.search(page)) is loads


def test_listing_the_commands_keeps_their_short_help_option():
    """Click keeps a command's help option from the first context it meets."""
    listed = tables.commands_list()
    assert listed.count("-h, --help") == listed.count("```text")
