"""Verdicts on constructed measurements: each branch, and the figures in its sentences."""

import json
import math

import pytest

from unstale.check import ConversionCheck, Errors, Measured
from unstale.check.verdict import RANDOM


def errors(cosine, l2=None, norms=1.0):
    return Errors(cosine=cosine, l1=2 * cosine, l2=cosine if l2 is None else l2, norms=norms)


def measured(arrival, used, stale=0.3, *, client=0, reason="", seconds=0.5, **more):
    return Measured(
        label="convert",
        client=client,
        arrival=arrival,
        stale=stale if isinstance(stale, Errors) else errors(stale),
        used=used if isinstance(used, Errors) else errors(used),
        kinds=("fallback",) if reason else ("converted",),
        detail={"reason": reason} if reason else {"loss": 0.01},
        seconds=seconds,
        **more,
    )


def check(used, first=0.1, *, stale=0.3, **about):
    """A check of one first and two later conversions with these errors."""
    rows = (measured(0, first, 0.3), measured(1, used, stale), measured(2, used, stale))
    return ConversionCheck(rows, staleness=20, clients=8, **about)


def said(found):
    return " ".join(found.sentences)


@pytest.mark.parametrize(
    ("used", "word"),
    [
        (0.0, "helps"),
        (0.0999, "helps"),
        (0.101, "helps a little"),
        (0.2399, "helps a little"),
        (0.2401, "does not help"),
        (0.3149, "does not help"),
        (0.3151, "harms"),
        (2.0, "harms"),
        (math.nan, "harms"),
    ],
)
def test_words_by_the_error_in_a_run(used, word):
    found = check(used)
    assert found.verdict == word
    assert "20 versions late, an update is 0.3 from the true one" in said(found)


def test_means_of_first_and_later_conversions():
    rows = (
        measured(0, 0.2, 0.4, client=0, seconds=3.0),
        measured(0, 0.4, 0.6, client=1, seconds=5.0),
        measured(1, errors(0.02, l2=0.1, norms=0.8), 0.2, seconds=1.0),
        measured(2, errors(0.04, l2=0.3, norms=1.0), 0.4, seconds=2.0),
    )
    found = ConversionCheck(rows, staleness=20, clients=8)
    assert (found.first.conversions, found.in_run.conversions) == (2, 2)
    assert found.first.stale.cosine == pytest.approx(0.5)
    assert found.first.ratio == pytest.approx(0.6)
    assert found.in_run.ratio == pytest.approx(0.1)
    assert found.in_run.converted == Errors(*map(pytest.approx, (0.03, 0.06, 0.2, 0.9)))
    assert found.in_run.l2_ratio == pytest.approx(0.2 / 0.3)
    assert found.first.seconds == pytest.approx(4.0)
    assert "takes 1.5 s on cpu (4 s a client's first)" in said(found)


@pytest.mark.parametrize(
    ("used", "part"),
    [
        (0.15, 'Check preset = "thorough", too'),
        (0.29, "use a cheaper method"),
        (0.5, "Do not use these settings here"),
    ],
)
def test_what_to_do(used, part):
    assert part in said(check(used))
    assert "thorough" not in said(check(used, thorough=True))


def test_what_helps_needs_no_advice():
    assert len(check(0.01).sentences) == 2  # the errors and the cost


def test_most_fits_fail():
    reason = "no fit: the loss stayed at 0.61, above 0.3"
    rows = (
        measured(0, 0.3, reason=reason),
        measured(1, 0.3, reason="no fit: the loss stayed at 0.48, above 0.3"),
        measured(2, 0.01),
    )
    found = ConversionCheck(rows, staleness=20, clients=8)
    assert found.verdict == "does not work"
    assert len(found.failures) == 2
    assert f"2 of 3 conversions failed: {reason}." in said(found)
    assert "make sure of that first" in said(found)


def test_some_fits_fail():
    """The stale update is used in place of those, and counts; the commonest reason is named."""
    rows = (
        measured(0, 0.01),
        measured(1, 0.3, reason="not trusted: the estimate is 12 times as large as the update"),
        measured(1, 0.01, client=1),
        measured(2, 0.3, reason="the loss was not finite"),
        measured(2, 0.3, client=1, reason="not trusted: the estimate is 31 times as large"),
        *(measured(3, 0.01, client=i) for i in range(4)),
    )
    found = ConversionCheck(rows, staleness=20, clients=8)
    assert found.verdict == "helps a little"
    assert (found.first.failed, found.in_run.failed) == (0, 3)
    assert "3 of 9 conversions failed: not trusted: the estimate is 12 times" in said(found)
    assert "smaller learning rate" in said(found)


def test_a_failure_without_a_reason_is_one():
    row = Measured("convert", 0, 1, errors(0.3), errors(0.3), kinds=())
    found = ConversionCheck((measured(0, 0.1), row), staleness=20, clients=8)
    assert found.failures == ("it was not converted",)
    assert found.verdict == "does not help"


def test_updates_that_are_zero_or_not_finite():
    found = check(math.nan, math.nan, stale=math.nan)
    assert found.verdict == "does not work"
    assert "training itself fails" in said(found)
    assert "nan" not in said(found)


@pytest.mark.parametrize(("used", "word"), [(0.0, "does not help"), (0.1, "harms")])
def test_stale_updates_without_error(used, word):
    found = check(used, stale=0.0)
    assert found.verdict == word
    assert math.isnan(found.in_run.ratio)
    assert "nan" not in said(found)
    assert "hardly wrong" in said(found)


def test_stale_updates_that_are_hardly_wrong():
    assert "hardly wrong here" in said(check(0.001, stale=0.0049))
    assert "hardly wrong" not in said(check(0.001, stale=0.0051))


def test_a_first_conversion_that_is_worse():
    assert "worse than its stale update, 1.7 times the error" in said(check(0.01, first=0.5))
    assert "first conversion is worse" not in said(check(0.01, first=0.3))
    assert "first conversion is worse" not in said(check(0.6, first=0.5))


def test_sizes_that_gain_more_than_directions():
    stale = errors(0.3, l2=2.0, norms=3.0)
    found = check(errors(0.2, l2=0.4), stale=stale)
    assert found.verdict == "helps a little"
    assert "By L2, which also counts the size of an update, it is 0.2 times" in said(found)
    assert "By L2" not in said(check(errors(0.2, l2=1.3), stale=stale))


@pytest.mark.parametrize(
    ("norms", "part"), [(0.5, "too small: 0.5 times"), (3.0, "too large: 3 times")]
)
def test_converted_updates_of_the_wrong_size(norms, part):
    assert part in said(check(errors(0.05, norms=norms)))
    assert "too small" not in said(check(errors(0.05, norms=0.9)))


def test_conversions_that_take_long():
    rows = (measured(0, 0.1, seconds=40.0), measured(1, 0.1, seconds=12.0))
    found = ConversionCheck(rows, staleness=20, clients=8)
    assert "takes 12 s on cpu (40 s a client's first)" in said(found)
    assert "use a GPU, fit in a background" in said(found)
    on_gpu = ConversionCheck(rows, staleness=20, clients=8, device="cuda:0")
    assert "to wait: fit in a background" in said(on_gpu)
    assert "to wait" not in said(check(0.1))


def test_memory_of_a_gpu():
    rows = (measured(0, 0.1, memory=2**30), measured(1, 0.1, memory=3 * 2**30))
    found = ConversionCheck(rows, staleness=20, clients=8, device="cuda")
    assert (found.first.memory, found.in_run.memory) == (2**30, 3 * 2**30)
    assert "up to 3 GiB of GPU memory" in said(found)
    assert check(0.1).in_run.memory is None
    assert "GPU memory" not in said(check(0.1))


def test_random_data_is_said_to_be():
    assert check(0.1, random_data=True).sentences[-1] == RANDOM
    assert RANDOM not in check(0.1).sentences


def test_text():
    text = str(check(0.05, title="a[b]", random_data=True))
    assert text.startswith("a[b]: 8 clients, 20 versions late, random data, on cpu")
    assert "Conversion helps.\n" in text
    (row,) = (line for line in text.splitlines() if "in a run, converted" in line)
    assert row.split()[4:] == ["2", "0.050", "0.100", "0.050", "1.000", "0.5", "0"]


def test_json_holds_everything_and_is_json():
    found = check(math.nan, stale=0.0).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["verdict"] == "harms"
    assert found["in_run"]["ratio"] is None
    assert found["in_run"]["stale"]["cosine"] == 0.0
    assert [c["arrival"] for c in found["conversions"]] == [0, 1, 2]
    assert found["conversions"][0]["detail"] == {"loss": 0.01}


def test_what_batches_change_by_chance_is_said():
    rows = [measured(i, 0.2, again=errors(0.15)) for i in range(3)]
    found = ConversionCheck(tuple(rows), staleness=20, clients=8)
    assert "trained again with other batches, is 0.15 from the true one" in said(found)
    assert "in a run, trained again" in str(found)
    assert found.to_json()["in_run"]["again"]["cosine"] == pytest.approx(0.15)
    rows = [measured(i, 0.2, again=errors(0.01)) for i in range(3)]
    assert "again" not in said(ConversionCheck(tuple(rows), staleness=20, clients=8))
    assert "trained again" not in str(check(0.1)), "clients that take all data at once"


def test_what_half_of_the_data_would_give_is_said_where_there_is_little_to_gain():
    def found(used, half):
        rows = [measured(i, used, half=errors(half)) for i in range(3)]
        return ConversionCheck(tuple(rows), staleness=20, clients=8)

    little = found(0.2, half=0.25)
    assert "knew half of each client's own samples would be 0.25 from the truth" in said(little)
    assert "in a run, half its data" in str(little)
    assert little.to_json()["in_run"]["half"]["cosine"] == pytest.approx(0.25)
    assert "More can hardly be had" not in said(found(0.2, half=0.1)), "more could be had"
    assert "More can hardly be had" not in said(found(0.01, half=0.1)), "it helps"
    assert "half" not in str(check(0.1)), "clients of one sample"
    assert "thorough" not in said(little), "no advice against what was just said"
    assert "More can hardly be had" not in said(found(0.4, half=0.5)), "the stale update is better"
