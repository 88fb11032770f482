"""Opens the report of a run with stand-ins in headless Chromium."""

from pathlib import Path

import pytest
from fake_run import write_fake_run
from fake_stand_ins import add_stand_ins
from headless import BROWSER, SIZES, WHY_SKIPPED, Browser, drawn, overflow

from unstale.report import write_report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason=WHY_SKIPPED),
]

CHARTS = (
    "stand_in_age",
    "stand_in_checked",
    "stand_in_truth",
    "stand_in_checked_l1",
    "stand_in_truth_l1",
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_fake_run(tmp_path_factory.mktemp("runs") / "stand-ins", seeds=(0, 1))
    return write_report(add_stand_ins(folder, methods=("unweighted", "convert")))


@pytest.mark.parametrize("size", SIZES)
def test_the_section_is_drawn_at_every_size(browser: Browser, report: Path, size: str) -> None:
    browser.open(report, **SIZES[size])
    marks = drawn(browser)
    assert all(marks[f"chart-{key}"] for key in CHARTS), marks
    # Two methods, each with its mean and dotted the oldest, in rounds 42 to 100.
    assert marks["chart-stand_in_age"] == 2 * 2 * 59
    assert browser.value("document.querySelectorAll('#standing table').length") == 2
    assert browser.complaints() == []
    assert overflow(browser) <= 0


def test_values_can_be_read(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.value("document.querySelector('#chart-stand_in_age .hit').focus()")
    browser.ask("Input.dispatchKeyEvent", type="keyDown", key="End", windowsVirtualKeyCode=35)
    tip = browser.value("document.querySelector('#chart-stand_in_age .tip').innerText")
    assert tip.startswith("round 100\n")
    assert "convert, oldest" in tip


def test_without_scripts_there_are_pictures(browser: Browser, report: Path) -> None:
    browser.open(report, scripts=False)
    sizes = browser.value(
        "[...document.querySelectorAll('#standing figure.chart')].map((figure) =>"
        " figure.querySelector('noscript img')?.naturalWidth ?? 0)"
    )
    assert len(sizes) == len(CHARTS)
    assert all(size > 300 for size in sizes), sizes
    assert overflow(browser) <= 0
