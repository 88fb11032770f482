"""Opens the report in headless Chromium, as a reader would.

Skipped, with the reason, where no browser is installed.
"""

import itertools
import json
import time
from pathlib import Path

import pytest
from fake_run import write_fake_run
from headless import BROWSER, HANGS, SIZES, WHY_SKIPPED, Browser, drawn, overflow

from unstale.report import write_comparison, write_report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason=WHY_SKIPPED),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_fake_run(tmp_path_factory.mktemp("runs") / "usual"))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve methods with long labels, a hundred clients, classes with long names."""
    more = tuple(f"variant-{i}" for i in range(7))
    folder = write_fake_run(
        tmp_path_factory.mktemp("runs") / "crowded",
        methods=("no_delay", "unweighted", "weighted", "first_order", "convert", *more),
        clients=100,
        classes=tuple(f"a class with a long name {i}" for i in range(10)),
    )
    long = "convert-with-a-label-that-goes-on-and-on-far-beyond-the-width-of-a-phone"
    for kind in ("rounds", "surrogates"):
        (folder / kind / "convert").rename(folder / kind / long)
    for name in ("config.json", "summary.json", "timing.json"):
        path = folder / name
        path.write_text(path.read_text().replace('"convert"', json.dumps(long)))
    return write_report(folder)


@pytest.mark.parametrize("size", SIZES)
def test_every_chart_is_drawn_without_a_complaint(
    browser: Browser, report: Path, size: str
) -> None:
    browser.open(report, **SIZES[size])
    marks = drawn(browser)
    assert set(marks) == {
        f"chart-{name}"
        for name in (
            *("affected_accuracy", "accuracy", "clients", "staleness", "conversions"),
            *("fallbacks", "refusals", "update_error", "update_error_l1"),
            *("fit_curves", "fit_loss"),
            *("fit_iterations", "gamma", "late_truth", "late_truth_l1"),
        )
    }
    assert marks["chart-affected_accuracy"] == 500
    assert all(marks.values()), marks
    # Marks have a size on the screen, too: paths are not empty and charts have a height.
    assert browser.value(
        "[...document.querySelectorAll('.plot > svg')].every((svg) => {"
        " const box = svg.getBoundingClientRect(); return box.width > 200 && box.height > 150; })"
    )
    assert browser.value(
        "[...document.querySelectorAll('path.line, path.mean')]"
        ".every((path) => path.getTotalLength() > 50)"
    )
    assert browser.value("document.documentElement.dataset.error") is None
    assert browser.complaints() == []
    assert overflow(browser) <= 0


@pytest.mark.parametrize("size", SIZES)
def test_many_methods_and_long_names_fit(browser: Browser, crowded: Path, size: str) -> None:
    browser.open(crowded, **SIZES[size])
    assert all(drawn(browser).values())
    assert browser.complaints() == []
    assert overflow(browser) <= 0


def test_dark_mode_turns_the_page_and_the_lines(browser: Browser, report: Path) -> None:
    brightness = (
        "getComputedStyle(document.querySelector('section')).backgroundColor"
        ".match(/[0-9]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)"
    )
    line = "getComputedStyle(document.querySelector('[data-method=convert] .line')).stroke"
    browser.open(report)
    light, light_line = browser.value(brightness), browser.value(line)
    browser.open(report, dark=True)
    assert light > 700
    assert browser.value(brightness) < 150
    assert browser.value(line) != light_line


def test_the_pointer_reads_values(browser: Browser, report: Path) -> None:
    browser.open(report)
    assert browser.value("document.querySelector('.tip').hidden")
    left, top, width, height = browser.value(
        "(() => { const box = document.querySelector('.hit').getBoundingClientRect();"
        " return [box.left, box.top, box.width, box.height]; })()"
    )
    browser.ask(
        "Input.dispatchMouseEvent", type="mouseMoved", x=left + width / 2, y=top + height / 2
    )
    title, *rows = browser.value("document.querySelector('.tip').innerText").split("\n")
    assert title.startswith("rounds ")  # smoothed: the value is a mean over these
    label, value = rows[:2]
    series = browser.value(
        "JSON.parse(document.querySelector('#chart-affected_accuracy script').textContent).series"
    )
    expected = next(s for s in series if s["method"] == label)
    mean = expected["mean"][expected["x"].index(int(title.rpartition(" to ")[2]))]
    assert float(value) == pytest.approx(mean, abs=0.0006)


def test_end_labels_are_ranked_by_what_they_say(browser: Browser, report: Path) -> None:
    browser.open(report)
    ends = browser.value(
        "[...document.querySelectorAll('#chart-affected_accuracy .end')]"
        ".map((t) => [Number(t.getAttribute('y')), Number(t.querySelector('.value').textContent)])"
    )
    assert len(ends) == 5
    by_place = [value for _, value in sorted(ends)]
    assert by_place == sorted(by_place, reverse=True)
    heights = sorted(y for y, _ in ends)
    assert all(b - a >= 14 for a, b in itertools.pairwise(heights)), heights


def test_raw_lines_are_faint_beneath_smoothed_ones(browser: Browser, report: Path) -> None:
    browser.open(report)
    chart = "document.querySelector('#chart-affected_accuracy')"
    assert browser.value(f"{chart}.querySelectorAll('.raw').length") == 5
    assert float(browser.value(f"getComputedStyle({chart}.querySelector('.raw')).opacity")) < 0.4


def test_points_that_lie_far_apart_are_marked(browser: Browser, tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", seeds=(0,), evaluate_every=5)
    browser.open(write_report(folder))
    dots = "document.querySelectorAll('#chart-accuracy [data-method=convert] .dot').length"
    assert browser.value(dots) == 20


def test_a_wide_table_says_that_it_scrolls(browser: Browser, report: Path) -> None:
    hint = "document.querySelector('#summary .hint').hidden"
    browser.open(report)
    assert browser.value(hint)
    browser.open(report, width=390, height=844)
    assert not browser.value(hint)
    browser.value("document.querySelector('#summary .scroll').scrollLeft = 5000")
    deadline = time.monotonic() + HANGS
    while not browser.value(hint):
        assert time.monotonic() < deadline, "the hint stays after the end was seen"
        time.sleep(0.05)


def test_words_in_charts_do_not_collide_on_a_phone(browser: Browser, crowded: Path) -> None:
    browser.open(crowded, width=390, height=844)
    collisions = browser.value(
        "[...document.querySelectorAll('figure[data-kind=lines] .plot > svg')].flatMap((svg) => {"
        " const texts = [...svg.querySelectorAll('text')].map((t) => [t.textContent,"
        "   t.getBoundingClientRect()]);"
        " return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([, q]) =>"
        "   p.left < q.right && q.left < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom)"
        "   .map(([b]) => `${a} / ${b}`)); })"
    )
    assert collisions == []


def press(browser: Browser, key: str) -> None:
    typed = {"Enter": "\r", " ": " "}.get(key, "")
    for kind in ("keyDown", "keyUp"):
        browser.ask(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code="Space" if key == " " else key,
            windowsVirtualKeyCode={"Enter": 13, " ": 32, "ArrowRight": 39, "Tab": 9, "End": 35}.get(
                key, 0
            ),
            **({"text": typed} if typed and kind == "keyDown" else {}),
        )


def test_the_legend_works_by_keyboard_and_everywhere(browser: Browser, report: Path) -> None:
    browser.open(report)
    lines = "document.querySelectorAll('[data-method=convert] .line').length"
    before = browser.value(lines)
    button = "document.querySelectorAll('#chart-affected_accuracy .legend')[4]"
    assert browser.value(f"{button}.textContent") == "convert"
    browser.value(f"{button}.focus()")
    press(browser, " ")
    assert browser.value(f"{button}.getAttribute('aria-pressed')") == "false"
    assert before >= 4
    assert browser.value(lines) == 0
    pressed = browser.value(
        "[...document.querySelectorAll('.legend')].filter((b) => b.textContent === 'convert')"
        ".map((b) => b.getAttribute('aria-pressed'))"
    )
    assert set(pressed) == {"false"}
    press(browser, " ")
    assert browser.value(lines) == before
    assert browser.complaints() == []


def test_arrow_keys_read_values(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.value("document.querySelector('#chart-affected_accuracy .hit').focus()")
    press(browser, "ArrowRight")
    press(browser, "ArrowRight")
    tip = "document.querySelector('#chart-affected_accuracy .tip')"
    assert browser.value(f"{tip}.innerText").startswith("rounds 1 to 2\n")
    assert not browser.value(f"{tip}.hidden")


def test_another_seed_can_be_looked_at(browser: Browser, report: Path) -> None:
    browser.open(report)
    picture = "document.querySelector('#chart-clients .plot > svg').outerHTML"
    first = browser.value(picture)
    browser.value("document.querySelectorAll('#chart-clients .view')[1].click()")
    assert browser.value(picture) != first
    assert drawn(browser)["chart-clients"] > 0


def test_charts_are_drawn_again_when_the_screen_turns(browser: Browser, report: Path) -> None:
    browser.open(report, width=390, height=844)
    browser.ask(
        "Emulation.setDeviceMetricsOverride",
        width=844,
        height=390,
        deviceScaleFactor=1,
        mobile=True,
    )
    fits = (
        "[...document.querySelectorAll('.plot > svg')].every((svg) =>"
        " Math.abs(svg.viewBox.baseVal.width - svg.parentNode.clientWidth) <= 1)"
    )
    deadline = time.monotonic() + HANGS
    while not browser.value(fits):
        assert time.monotonic() < deadline, "charts kept their old width"
        time.sleep(0.05)


def test_without_scripts_there_are_pictures(browser: Browser, report: Path) -> None:
    browser.open(report, scripts=False)
    sizes = browser.value(
        "[...document.querySelectorAll('figure.chart')].map((figure) =>"
        " figure.querySelector('noscript img')?.naturalWidth ?? 0)"
    )
    assert len(sizes) == 15
    assert all(size > 300 for size in sizes), sizes
    assert overflow(browser) <= 0


def test_surrogates_are_pictures_that_load(browser: Browser, report: Path) -> None:
    for scripts in (True, False):
        browser.open(report, scripts=scripts)
        sizes = browser.value(
            "[...document.querySelectorAll('.samples img')].map((img) =>"
            " [img.naturalWidth, img.naturalHeight, img.getBoundingClientRect().width > 30])"
        )
        assert sizes == [[8, 8, True]] * 24
    browser.open(report, width=320, height=568)
    assert overflow(browser) <= 0


def test_a_logarithmic_axis_is_one(browser: Browser, report: Path) -> None:
    browser.open(report)
    # Equal factors are equally far apart: 0.01 to 0.02 as 0.1 to 0.2.
    at = browser.value(
        "Object.fromEntries([...document.querySelectorAll('#chart-update_error svg text')]"
        ".filter((t) => t.getAttribute('text-anchor') === 'end')"
        ".map((t) => [t.textContent, Number(t.getAttribute('y'))]))"
    )
    assert at["0.01"] - at["0.02"] == pytest.approx(at["0.1"] - at["0.2"], abs=0.2)
    assert at["0.01"] > at["0.02"] > at["0.1"]


def test_the_fates_of_a_round_can_be_read(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.value("document.querySelector('#chart-conversions .hit').focus()")
    press(browser, "End")
    tip = browser.value("document.querySelector('#chart-conversions .tip').innerText")
    assert tip.startswith("round 100\n")
    assert "switched back" in tip


def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    folder = write_fake_run(
        tmp_path / "run",
        title="<img src=x onerror=window.pwned=1>",
        classes=tuple(f"</script><script>window.pwned={i}</script>" for i in range(10)),
    )
    hostile = "<img src=x onerror=window.pwned=2>"
    for path in (folder / "rounds" / "convert").glob("*"), (folder / "surrogates").rglob("*.json"):
        for file in path:
            file.write_text(file.read_text().replace("client-25", hostile))
    browser.open(write_report(folder))
    assert browser.value("typeof window.pwned") == "undefined"
    assert browser.value("document.querySelector('h1').textContent").startswith("<img")
    assert browser.value("document.querySelector('#chart-clients').textContent").count("</scri")
    assert browser.complaints() == []


def test_an_unfinished_run_is_drawn_and_named(browser: Browser, tmp_path: Path) -> None:
    folder = write_fake_run(
        tmp_path / "run", finished=False, reached={("convert", 1): 1, ("weighted", 0): 0}
    )
    browser.open(write_report(folder))
    assert "Unfinished" in browser.value("document.body.innerText")
    assert all(drawn(browser).values())
    assert browser.complaints() == []


@pytest.mark.parametrize("size", ["desktop", "dark phone"])
def test_three_runs_in_one_page(browser: Browser, tmp_path: Path, size: str) -> None:
    eight = [("no_delay", "unweighted", "weighted"), ("no_delay", "convert", "variant-0")]
    eight.append(("first_order", "variant-1", "variant-2"))
    folders = [
        write_fake_run(tmp_path / f"run-{i}", methods=methods, seeds=(0,))
        for i, methods in enumerate(eight)
    ]
    page = tmp_path / "comparison.html"
    write_comparison(folders, page)
    browser.open(page, **SIZES[size])
    assert drawn(browser) == {"chart-affected_accuracy": 800, "chart-accuracy": 800}
    strokes = browser.value(
        "[...document.querySelectorAll('#chart-accuracy .line')]"
        ".map((line) => getComputedStyle(line).stroke)"
    )
    assert len(set(strokes)) == 8
    assert browser.complaints() == []
    assert overflow(browser) <= 0


def test_a_faulty_page_would_be_noticed(browser: Browser, report: Path, tmp_path: Path) -> None:
    """The tests above can fail."""
    page = report.read_text()
    broken = tmp_path / "broken.html"
    broken.write_text(page.replace('data-kind="clients"', 'data-kind="none"'))
    with pytest.raises(AssertionError, match=r"never drawn.*TypeError"):
        browser.open(broken)
    broken.write_text(page.replace("<footer>", "<script>window.pwned = 1</script><footer>"))
    browser.open(broken)
    assert browser.value("typeof window.pwned") == "undefined"
    assert any("Content Security Policy" in said for said in browser.complaints())
    broken.write_text(page.replace("<footer>", '<p style="width: 2000px">wide</p><footer>'))
    for width in (390, 1280):
        browser.open(broken, width=width)
        assert overflow(browser) > 500
