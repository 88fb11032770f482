"""Whatever goes into a template comes out as text."""

import html
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unstale.report.html
from unstale.report.html.page import environment
from unstale.report.html.surrogates import Tile

FOLDER = Path(unstale.report.html.__file__).parent


def rendered(template, **values):
    return environment().from_string(template).render(values)


@given(st.dictionaries(st.text(), st.lists(st.text() | st.integers()), max_size=3))
def test_embedded_json_reads_back_and_holds_no_markup(value):
    written = rendered("{{ value|tojson }}", value=value)
    assert json.loads(written) == value
    assert not set("<>&\u2028\u2029") & set(written)


@given(st.text())
def test_text_reads_back_and_holds_no_markup(value):
    written = rendered("{{ value }}", value=value)
    assert html.unescape(written) == html.unescape(html.escape(value))
    assert not set("<>\"'") & set(written)


def test_embedded_numbers_are_finite():
    with pytest.raises(ValueError, match="JSON"):
        rendered("{{ value|tojson }}", value=[float("nan")])


def test_an_unknown_name_is_an_error():
    with pytest.raises(Exception, match="'mistyped' is undefined"):
        rendered("{{ mistyped }}")


def test_only_our_own_assets_go_in_unescaped():
    templates = "".join(path.read_text() for path in FOLDER.glob("*.html"))
    assert re.findall(r"\{\{[^}]*\bsafe\b[^}]*\}\}", templates) == [
        "{{ css|safe }}",
        "{{ script|safe }}",
    ]
    assert "autoescape" not in templates
    assert not any("Markup" in path.read_text() for path in FOLDER.glob("*.py"))


def test_the_name_of_a_picture_is_escaped():
    macros = environment().get_template("macros.html").module
    tile = Tile('said "so"', (("<b>", 0.9),), 0.9, lines=("1,2 3,4",))
    drawn = macros.sample(tile)
    assert '<polyline points="1,2 3,4"/>' in drawn
    assert 'aria-label="said &#34;so&#34;"' in drawn
    assert "<b>&lt;b&gt;</b><span>90%</span>" in drawn
