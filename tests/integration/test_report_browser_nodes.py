"""Opens the report of a run on real clients in headless Chromium."""

from pathlib import Path

import pytest

from unstale.report import write_report

pytest.importorskip("flwr")
from headless import BROWSER, SIZES, WHY_SKIPPED, Browser, drawn, overflow
from logged_run import write_logged_run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason=WHY_SKIPPED),
]

ALWAYS = {"seconds", "staleness", "conversions", "fallbacks", "refusals"}
ALWAYS |= {"fit_curves", "fit_loss", "fit_iterations"}
# What a page may lack, and the charts that lead it.
RUNS = {
    "whole": ({}, {"affected_accuracy", "accuracy"}),
    "under way, nobody says what is affected": ({"affected": False, "reached": 23}, {"accuracy"}),
    "never evaluated": ({"affected": False, "evaluate": False}, set()),
}


@pytest.mark.parametrize("run", RUNS)
def test_the_page_is_whole_at_every_size(browser: Browser, run: str, tmp_path: Path) -> None:
    options, lead = RUNS[run]
    page = write_report(write_logged_run(tmp_path / "run", **options))
    for size in SIZES.values():
        browser.open(page, **size)
        marks = drawn(browser)
        assert set(marks) == {f"chart-{name}" for name in ALWAYS | lead}
        assert all(marks.values()), marks
        assert browser.complaints() == []
        assert overflow(browser) <= 0
    assert browser.value("document.querySelectorAll('#nodes tbody tr').length") == 4
