import json

import pytest

from unstale.report.figures.lines import Axis, Line, LineChart
from unstale.report.figures.series import Series
from unstale.report.html.specs import short, significant, spec


@pytest.mark.parametrize(
    ("value", "shown"), [(0.12344, 0.1234), (1.0, 1), (0.99999, 1), (0, 0), (-0.00001, 0)]
)
def test_short_numbers(value, shown):
    assert json.dumps(short(value)) == json.dumps(shown)


def test_significant_digits_do_not_depend_on_the_size():
    assert [significant(v) for v in (0.000123456, 1.23456, 123456.0)] == [0.0001235, 1.235, 123500]


def chart(series, **settings):
    x, y = Axis("round", high=9), settings.pop("y", Axis("what", low=0))
    return LineChart("key", "title", "desc", x, y, (Line("m", series),), **settings)


def test_a_band_is_told_only_where_seeds_differ():
    one = spec(chart(Series((1, 2), (0.5, 0.75), (0.5, 0.75), (0.5, 0.75))))
    assert one["series"] == [{"method": "m", "x": (1, 2), "mean": [0.5, 0.75]}]
    two = spec(chart(Series((1,), (0.5,), (0.4,), (0.6,))))
    assert two["series"] == [{"method": "m", "x": (1,), "mean": [0.5], "low": [0.4], "high": [0.6]}]


def test_a_chart_says_how_it_is_to_be_drawn():
    series = Series((1,), (0.000123456,), (0.000123456,), (0.000123456,))
    log = spec(chart(series, y=Axis("error", log=True), size="small", thin=True))
    assert log["y"] == {"label": "error", "log": True}
    assert log["series"][0]["mean"] == [0.0001235]
    assert log["small"]
    assert log["thin"]
    plain = spec(chart(series, size="hero", target=0.8))
    assert plain["y"] == {"label": "what", "min": 0, "digits": 1}
    assert plain["x"] == {"label": "round", "max": 9}
    assert plain["marks"] == [{"y": 0.8, "label": "target 0.80"}]
