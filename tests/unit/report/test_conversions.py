"""What is computed of conversions: fates, curves, shares and pictures."""

import io

import matplotlib.image
import pytest

from unstale.report.figures.conversions import (
    converting,
    fates_of,
    iterations_taken,
    loss_reached,
    mean_curve,
    reasons,
)
from unstale.report.figures.switching import shares, verdicts
from unstale.report.html.surrogates import encode_png, signal_lines
from unstale.report.records import Method, Round, Run
from unstale.run_folder import SurrogateSamples
from unstale.run_folder.schema import Converted, FellBack, Measured


def run_of(rounds, name="convert", seeds=(0,)):
    methods = (Method("m", name),)
    by_label = {"m": {0: tuple(rounds)}}
    return Run({}, {}, methods, seeds, len(rounds), by_label, {}, None, None, {})


def test_every_stale_update_has_one_fate():
    rounds = [
        Round(1),
        Round(2, stale=3, conversions=1, notes={"kept": 1, "fallback": 1, "converted": 1}),
        # One client uses half of its estimate, which is a conversion; another nothing of it.
        Round(3, stale=3, conversions=1, notes={"switched": 2}, gamma={"a": 0.5, "b": 0.0}),
    ]
    found = fates_of(run_of(rounds), "m")
    assert found.x == (1, 2, 3)
    assert found.values == {
        "converted": (0, 1, 1),
        "kept": (0, 1, 0),
        "switched": (0, 0, 1),
        "fallback": (0, 1, 0),
        "other": (0, 0, 1),
    }


def test_a_method_that_only_fell_back_was_to_convert():
    late = [Round(1, stale=1, notes={"fallback": 1})]
    assert [m.label for m in converting(run_of(late))] == ["m"]
    assert converting(run_of(late, "unweighted")) == []
    assert converting(run_of([Round(1)])) == []


def test_reasons_are_counted_whatever_their_numbers():
    fell_back = [
        tuple(FellBack("a", why) for why in whys)
        for whys in (("3.5 times", "gone"), ("1e+20 times",))
    ]
    rounds = [Round(1, fell_back=fell_back[0]), Round(2, fell_back=fell_back[1])]
    assert reasons(run_of(rounds), "m") == {"… times": 2, "gone": 1}


def test_curves_are_averaged_where_they_are_and_stay_where_they_stopped():
    short = Converted("a", 0.5, 3, False, ((1, 1.0), (3, 0.5)))
    long = Converted("b", 0.1, 9, False, ((1, 3.0), (5, 1.0), (9, 0.1)))
    other = Converted("a", 0.2, 2, True, ((1, 0.3), (2, 0.2)))
    line = mean_curve({0: (Round(1, converted=(short, long, other)),)}, warm=False)
    at = dict(zip(line.x, zip(line.mean, line.low, line.high, strict=True), strict=True))
    assert at[1] == (2.0, 1.0, 3.0)
    assert at[2] == pytest.approx((1.625, 0.75, 2.5))
    assert at[9] == pytest.approx((0.3, 0.1, 0.5))
    warm = mean_curve({0: (Round(1, converted=(short, long, other)),)}, warm=True)
    assert (warm.x, warm.mean) == ((1, 2), (0.3, 0.2))
    assert not mean_curve({0: (Round(1),)}, warm=True)


def test_a_curve_of_one_point():
    one = Converted("a", 0.5, 1, False, ((1, 0.5),))
    assert mean_curve({0: (Round(1, converted=(one,)),)}, warm=False).mean == (0.5,)


def test_a_rounds_fit_is_the_mean_of_its_conversions():
    record = Round(1, converted=(Converted("a", 0.5, 10, False), Converted("b", None, 20, True)))
    assert (loss_reached(record), iterations_taken(record)) == (0.5, 15)
    assert (loss_reached(Round(1)), iterations_taken(Round(1))) == (None, None)


def test_the_share_of_a_client_that_switched():
    whole = Converted("a", 0.5, 1, True)
    rounds = [
        Round(1, converted=(whole, Converted("b", 0.5, 1, True))),
        Round(2),
        Round(3, converted=(whole,), gamma={"a": 0.5}),
        Round(4, gamma={"a": 0.0}),
    ]
    (share,) = shares(run_of(rounds))
    assert share.name == "a"
    assert (share.line.x, share.line.mean) == ((1, 3, 4), (1.0, 0.5, 0.0))
    assert shares(run_of(rounds, seeds=(0, 1)))[0].name == "a, seed 0"
    assert shares(run_of(rounds[:2])) == []


def test_verdicts_count_what_is_known():
    measured = (Measured("a", 0.1, 0.2), Measured("a", 0.3, 0.2), Measured("a", None, 0.2))
    assert verdicts(run_of([Round(1, measured=measured)]), Method("m", "convert")) == (1, 2)


def test_a_png_has_the_pixels_of_the_sample():
    # Red, green; blue, white; values beyond the bounds are cut.
    planes = (2.0, -1.0, -1.0, 2.0), (-1.0, 2.0, -1.0, 2.0), (-1.0, -1.0, 0.5, 2.0)
    sample = tuple(value for plane in planes for value in plane)
    surrogate = SurrogateSamples("a", (3, 2, 2), 0.0, 1.0, 1, (sample,), ((1.0,),))
    image = matplotlib.image.imread(io.BytesIO(encode_png(surrogate, 0)))
    assert image[..., :3].tolist() == [
        [[1, 0, 0], [0, 1, 0]],
        [[0, 0, pytest.approx(0.5, abs=0.01)], [1, 1, 1]],
    ]
    grey = SurrogateSamples("a", (1, 1, 3), -1.0, 1.0, 1, ((-1.0, 0.0, 1.0),), ((1.0,),))
    image = matplotlib.image.imread(io.BytesIO(encode_png(grey, 0)))
    assert image.tolist() == [[0, pytest.approx(0.5, abs=0.01), 1]]


def test_a_signal_is_a_line_for_each_channel():
    values = tuple(float(i % 9) for i in range(3 * 20))
    surrogate = SurrogateSamples("a", (3, 20), 0.0, 9.0, 1, (values,), ((1.0,),))
    assert [len(line.split()) for line in signal_lines(surrogate, 0)] == [20] * 3
    flat = SurrogateSamples("a", (20,), 0.0, 1.0, 1, ((0.5,) * 20,), ((1.0,),))
    assert "nan" not in signal_lines(flat, 0)[0]
