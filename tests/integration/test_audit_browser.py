"""Opens the page of a privacy audit in headless Chromium."""

from pathlib import Path

import pytest
from headless import BROWSER, SIZES, WHY_SKIPPED, Browser, overflow

from unstale.audit.metrics import Quality
from unstale.audit.page import write_page
from unstale.audit.pictures import Strip
from unstale.audit.result import FIRST, LAST, UPDATE, Labels, PrivacyAudit, Size

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason=WHY_SKIPPED),
]

SHAPES = {"grey": (1, 4, 4), "colour": (3, 4, 4), "signal": (2, 20)}


def audit(shape: tuple[int, ...]) -> PrivacyAudit:
    values = tuple(0.5 for _ in range(40 if len(shape) == 2 else 16 * shape[0]))
    names = ("original", FIRST, LAST, UPDATE, "random noise")
    strips = [Strip(name, shape, (values,) * 8, (5,) * 8 * (name == "original")) for name in names]
    quality = Quality(0.01, 20.0, 0.9, 0.1, 0.5, 1.0, 0.6, 0.1, 8, 40)
    rows = dict.fromkeys(names[1:], quality)
    size = Size(8, 16, rows, Labels(1.0, 0.9, 0.1), strips=tuple(strips))
    return PrivacyAudit(
        (size,), attacked=3, clients=20, updates=5, steps=5, title="A long name " * 8
    )


@pytest.mark.parametrize("kind", SHAPES)
def test_the_page_is_whole_at_every_size(browser: Browser, kind: str, tmp_path: Path) -> None:
    page = write_page(audit(SHAPES[kind]), tmp_path / "audit.html")
    for size in SIZES.values():
        browser.open(page, **size, scripts=False)
        assert browser.complaints() == []
        assert overflow(browser) <= 0
        drawn = browser.value("document.querySelectorAll('.strips img, .strips svg').length")
        assert drawn == 5 * 8
    broken = "[...document.images].filter((one) => one.naturalWidth === 0).length"
    assert browser.value(broken) == 0
