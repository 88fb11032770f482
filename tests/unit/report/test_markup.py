import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.report.markup import decimal, embed, short, text, whole


@given(st.dictionaries(st.text(), st.lists(st.text() | st.integers()), max_size=3))
def test_embedded_json_reads_back_and_holds_no_markup(value):
    written = embed(value)
    assert json.loads(written) == value
    assert not set("<>&\u2028\u2029") & set(written)


@given(st.text())
def test_text_reads_back_and_holds_no_markup(value):
    written = text(value)
    assert html.unescape(written) == html.unescape(html.escape(value))
    assert not set("<>\"'") & set(written)


def test_embedded_numbers_are_finite():
    with pytest.raises(ValueError, match="JSON"):
        embed([float("nan")])


@pytest.mark.parametrize(
    ("value", "shown"), [(0.12344, 0.1234), (1.0, 1), (0.99999, 1), (0, 0), (-0.00001, 0)]
)
def test_short_numbers(value, shown):
    assert json.dumps(short(value)) == json.dumps(shown)


def test_numbers_for_people():
    assert decimal(None) == decimal(float("nan")) == whole(None) == "–"
    assert decimal(0.856, 2) == "0.86"
    assert decimal(1234.5, 1) == "1,234.5"
    assert whole(72.33) == "72.3"
    assert whole(1383.3) == "1,383"
    assert whole(12.0) == "12"
