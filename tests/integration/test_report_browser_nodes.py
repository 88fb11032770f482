"""Opens the report of a run on real clients in headless Chromium."""

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from unstale.report import write_report

pytest.importorskip("flwr")
_headless = runpy.run_path(str(Path(__file__).with_name("headless.py")))
Browser, drawn, overflow, SIZES = (
    _headless[name] for name in ("Browser", "drawn", "overflow", "SIZES")
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(_headless["BROWSER"] is None, reason=_headless["WHY_SKIPPED"]),
]

write_logged_run = runpy.run_path(
    str(Path(__file__).parents[1] / "unit" / "flower" / "logged_run.py")
)["write_logged_run"]
ALWAYS = {"seconds", "staleness", "conversions", "fallbacks", "refusals"}
ALWAYS |= {"fit_curves", "fit_loss", "fit_iterations"}
# What a page may lack, and the chart that leads it.
RUNS = {
    "whole": ({}, {"affected_accuracy"}),
    "under way, nobody says what is affected": ({"affected": False, "reached": 23}, {"accuracy"}),
    "never evaluated": ({"affected": False, "evaluate": False}, set()),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


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
