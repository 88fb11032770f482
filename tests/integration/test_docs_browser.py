"""The built docs, opened as files in headless Chromium."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from headless import BROWSER, HANGS, WHY_SKIPPED, Browser

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,  # the site takes its time to build
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason=WHY_SKIPPED),
]

FOUND = "[...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The docs, as `make docs` builds them."""
    place = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return place


def search(browser, words):
    """Type words into the search field and return where its results lead."""
    browser.value("document.querySelector('#__search').click()")
    browser.value("document.querySelector('.md-search__input').focus()")
    browser.ask("Input.insertText", text=words)
    deadline = time.monotonic() + HANGS
    while not (links := browser.value(FOUND)):
        assert time.monotonic() < deadline, f"nothing was found; {browser.complaints()}"
        time.sleep(0.1)
    return links


@pytest.mark.parametrize("page", ["index.html", "conversion.html"])
def test_the_search_finds_pages(browser: Browser, site, page, tmp_path) -> None:
    # Focus starts the search; where that is not heard yet, a page is loaded but not alive.
    alive = "querySelector('.md-search__input') !== null && typeof __md_get === 'function'"
    browser.open(site / page, ready=alive)
    links = search(browser, "surrogate")
    browser.screenshot(tmp_path / "search.png", whole=False)
    assert any("conversion.html" in link for link in links)
    places = {
        Path(link.removeprefix("file://").partition("#")[0].partition("?")[0]) for link in links
    }
    assert all(place.is_file() for place in places)
    assert browser.complaints() == []
