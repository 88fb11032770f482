import base64
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from unstale.report import read_run
from unstale.report.context import Context
from unstale.report.html import build_page
from unstale.report.png import draw_plots

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&$_{\ud800"


class Seen(HTMLParser):
    """What a browser would make of the page: tags, attributes, text and script contents."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.scripts, self.words = [], [], [], []
        self._open = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append((tag, dict(attrs)))

    def handle_data(self, data):
        tag, attrs = self._open[-1] if self._open else ("", {})
        if tag == "script":
            self.scripts.append((attrs.get("type"), data))
        elif tag != "style":
            self.words.append(data)

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(finished):
    context = Context.of(read_run(finished))
    return build_page(dataclasses.replace(context, plots={"affected_accuracy": b"\x89PNG"}))


def test_the_effect_comes_first_and_the_setup_last(page):
    assert re.findall(r'<section id="([a-z]+)">', page) == [
        "effect",
        "summary",
        "clients",
        "staleness",
        "classes",
        "handling",
        "conversions",
        "fit",
        "error",
        "switching",
        "surrogates",
        "setup",
    ]
    assert page.index('class="lede"') < page.index('id="effect"')


def test_the_page_needs_nothing_from_outside(page):
    seen = Seen(page)
    assert not {"link", "iframe", "object", "embed", "base", "form"} & set(seen.tags)
    for name, value in seen.attributes:
        if name in {"src", "href", "srcset", "action"}:
            assert value.startswith(("data:", "#"))
    assert "url(" not in page
    assert "@import" not in page
    # The name of the SVG namespace is the only address, and nobody fetches it.
    assert set(re.findall(r"https?://[^\"'\s<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_the_policy_allows_exactly_the_script_of_the_page(page):
    scripts = [body for kind, body in Seen(page).scripts if kind is None]
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in page
    assert "script-src 'unsafe-inline'" not in page


def test_every_figure_carries_its_data(page):
    seen = Seen(page)
    figures = seen.tags.count("figure")
    data = [json.loads(body) for kind, body in seen.scripts if kind == "application/json"]
    assert figures == len(data) - 1 == 15  # one more for the looks of the methods
    for spec in data[:-1]:
        assert spec["kind"] in {"lines", "clients", "arrivals", "stack"}
        assert spec["title"]
        assert spec["desc"]
    assert data[0]["marks"] == [{"y": 0.8, "label": "target 0.80"}]
    assert data[0]["series"][0]["method"] == "no_delay"
    assert len(data[0]["series"][0]["x"]) == 100
    assert set(data[-1]) == {"no_delay", "unweighted", "weighted", "first_order", "convert"}


def test_the_table_marks_the_best_that_is_no_oracle(page):
    table = page[page.index('id="summary"') : page.index("</table>")]
    rows = {re.search(r"</svg>([a-z_]+)</span>", row)[1]: row for row in table.split("<tr")[2:]}
    assert list(rows)[:2] == ["no_delay", "convert"]
    assert list(rows)[-1] == "weighted"
    assert {label: row.count('<b class="best">') for label, row in rows.items()} == {
        "no_delay": 0,
        "convert": 4,
        "first_order": 0,
        "unweighted": 0,
        "weighted": 0,
    }
    assert "not held" in rows["weighted"]
    assert "± 0." in rows["convert"]
    assert "34.2" in rows["convert"]


def test_the_affected_class_leads_the_class_table(page):
    table = page[page.index('id="classes"') : page.index('id="handling"')]
    head = re.findall(r'<th scope="col" class="([a-z ]+)">(.*?)</th>', table)
    assert head[0][0] == "num affected"
    assert [re.sub("<.*?>", "", name) for _, name in head] == ["◆ 5", *"012346789"]


def test_what_never_happened_is_said(page):
    assert "None: dropped updates." in Seen(page).text
    assert "refused: not finite" in Seen(page).text


def test_a_finished_page_says_how_to_get_it_again(page):
    seen = Seen(page)
    assert "unstale run quickstart --seeds 0,1,2" in seen.text
    assert '"momentum": 0.5' in seen.text
    assert "Unfinished" not in seen.text
    assert "rovisional" not in seen.text


def test_a_chart_has_a_picture_where_scripts_are_off(page):
    assert '<noscript><img src="data:image/png;base64,iVBORw==" alt="Test accuracy' in page


def test_an_unfinished_page_says_so(fake_run, context_of):
    folder = fake_run(
        finished=False,
        rounds=20,
        reached={("convert", 0): 7, ("convert", 1): 0, ("convert", 2): 0},
    )
    text = Seen(build_page(context_of(folder))).text
    assert "Unfinished 12 of 15 method and seed pairs are done." in text
    assert "Under way: convert, seed 0: round 7 of 20." in text
    assert "at round 7 of 20" in text
    assert "Provisional" in text


@pytest.mark.parametrize("config", ["{}", '{"methods": [{"name": "a"}], "seeds": [0], "data": 3}'])
def test_a_run_that_has_only_a_config_has_a_page(tmp_path, context_of, config):
    (tmp_path / "config.json").write_text(config)
    context = context_of(tmp_path)
    assert draw_plots(context) == {}
    assert "No round has been evaluated yet." in Seen(build_page(context)).text


def test_a_run_that_converts_nothing_has_no_sections_about_it(fake_run, context_of):
    folder = fake_run(rounds=60, seeds=(0,), methods=("no_delay", "unweighted"), clients=10)
    page = build_page(context_of(folder))
    keys = re.findall(r'<section id="([a-z]+)">', page)
    assert not {"conversions", "fit", "switching", "surrogates"} & set(keys)


def test_counts_alone_make_the_chart_of_conversions(fake_run, context_of):
    """A line of an older run does not tell conversions one by one."""
    folder = fake_run(rounds=60, seeds=(0,), methods=("unweighted", "convert"), clients=10)
    path = folder / "rounds" / "convert" / "seed-0.jsonl"
    told = {"converted", "fallbacks", "gamma", "measured"}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{k: v for k, v in line.items() if k not in told} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    context = context_of(folder)
    keys = re.findall(r'<section id="([a-z]+)">', build_page(context))
    assert "conversions" in keys
    assert not {"fit", "switching"} & set(keys)
    assert "conversions" in draw_plots(context)


def test_the_fit_tells_first_and_warm_conversions_apart(page):
    fit = Seen(page[page.index('id="fit"') : page.index('id="error"')])
    assert "from nothing" in fit.text
    curves = next(json.loads(body) for kind, body in fit.scripts if "while fitting" in body)
    assert [line.get("variant") for line in curves["series"]] == [None, "warm start"]
    cold, warm = curves["series"]
    assert cold["x"][-1] == 150
    assert warm["x"][-1] == 25
    assert cold["mean"][0] > warm["mean"][0]


def test_why_conversions_fell_back_is_counted(page):
    part = page[page.index('id="conversions"') : page.index('id="fit"')]
    assert "not trusted: the estimate is … times as large as the update" in Seen(part).text


def test_surrogates_say_what_they_are(page):
    part = Seen(page[page.index('id="surrogates"') : page.index('id="setup"')])
    assert "This is not client data" in part.text
    assert part.tags.count("img") == 3 * 8
    assert "8 of 20 samples; the client's own classes: 5 (3" in part.text
    assert "5 90%" in part.text


@pytest.mark.parametrize(
    ("shape", "tag", "said"),
    [
        ((3, 4, 4), "img", ""),
        ((6, 16), "svg", ""),
        ((30,), "svg", ""),
        ((20, 50), None, "Inputs of 20 × 50 values are neither an image nor a signal"),
        ((3,), None, "Inputs of 3 values are neither"),
        ((2, 2, 2, 2), None, "Inputs of 2 × 2 × 2 × 2 values are neither"),
    ],
)
def test_every_shape_of_input_is_drawn_or_said(
    fake_run, context_of, write_surrogates, shape, tag, said
):
    folder = fake_run(rounds=3, seeds=(0,), methods=("unweighted",), clients=10)
    write_surrogates(folder, "unweighted", 0, shape)
    context = context_of(folder)
    page = build_page(context)
    part = page[page.index('class="surrogates"') : page.index('id="setup"')]
    samples = part[part.index('class="samples') :]
    assert said in Seen(page).text
    assert (f"<{tag} " in samples) is (tag is not None)
    assert ("surrogates" in draw_plots(context)) is (tag is not None)


def test_foreign_text_stays_text(fake_run, context_of):
    seen, expected = (
        Seen(
            build_page(context_of(_with_text(fake_run, name, word)))
            .encode("utf-8", "replace")
            .decode()
        )
        for name, word in (("hostile", HOSTILE), ("plain", "plain"))
    )
    assert seen.tags == expected.tags
    assert [name for name, _ in seen.attributes] == [name for name, _ in expected.attributes]
    assert "</script><script>alert(1)</script>" in seen.text


def _with_text(fake_run, name, word):
    """Write a run with `word` wherever it holds text that others chose."""
    folder = fake_run(name, rounds=95, seeds=(0,), methods=("no_delay", "unweighted", "convert"))
    for path in (
        folder / "surrogates" / "convert" / "seed-0.json",
        folder / "rounds" / "convert" / "seed-0.jsonl",
        folder / "config.json",
        folder / "environment.json",
        folder / "scenario" / "seed-0.json",
        folder / "rounds" / "unweighted" / "seed-0.jsonl",
    ):
        lines = [_replaced(json.loads(line), word) for line in path.read_text().splitlines()]
        path.write_text("\n".join(json.dumps(line) for line in lines))
    return folder


def _replaced(value, word):
    if isinstance(value, list):
        return [_replaced(v, word) for v in value]
    if not isinstance(value, dict):
        return value
    free = {"title", "description", "command", "id", "started", "device", "commit"}
    free |= {"client", "reason"}
    replaced = {k: word if k in free else _replaced(v, word) for k, v in value.items()}
    if "classes" in value:
        replaced["classes"] = [f"{word}{name}" for name in value["classes"]]
    if "refused" in value:
        replaced["refused"] = {word: 1}
    if "gamma" in value:
        replaced["gamma"] = dict.fromkeys([word], *value["gamma"].values())
    return replaced


def test_every_chart_of_the_page_has_a_picture(finished, context_of):
    context = context_of(finished)
    keys = re.findall(r'<figure class="[a-z ]+" id="chart-([a-z0-9_]+)"', build_page(context))
    # Two of the pictures are tables and cards on the page.
    assert {*keys, "class_accuracy", "surrogates"} == set(draw_plots(context))


def test_an_error_of_zero_has_no_place_on_a_logarithmic_axis(fake_run, context_of):
    folder = fake_run(rounds=45, seeds=(0,), methods=("unweighted", "first_order"), clients=10)
    path = folder / "rounds" / "first_order" / "seed-0.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    zero = [line | {key: 0.0 for key in line if key.startswith("oracle/")} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in zero))
    context = context_of(folder)
    assert 'id="error"' not in build_page(context)
    assert not {"update_error", "update_error_l1"} & set(draw_plots(context))


def test_the_page_needs_no_matplotlib():
    code = "import sys, unstale.report.html; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
