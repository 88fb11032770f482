"""`unstale watch` beside a run in another process, which is killed, resumed and ends."""

import json
import re
import signal
import time

import pytest
from headless import BROWSER, HANGS, WHY_SKIPPED, Browser

OPTIONS = (
    "--no-report", "--seeds", "0", "--set", "rounds=30", "--set", "latency.rounds=6",
    "--set", 'methods=["unweighted", "memory"]',
)  # fmt: skip
OFTEN = (
    "from unstale.experiment import run_experiment as r; "
    "r.__kwdefaults__['checkpoint_seconds'] = 0.03; "
)


def wait_until(holds, what):
    deadline = time.monotonic() + HANGS
    while not (found := holds()):
        assert time.monotonic() < deadline, f"{what}: it never comes"
        time.sleep(0.05)
    return found


def states_of(process):
    """The states that `watch --json` prints, as they come."""
    for line in process.stdout:
        yield json.loads(line)


@pytest.mark.slow
def test_a_run_is_followed_through_a_kill_and_a_resume_to_its_end(
    start, finish, tmp_path, experiment
):
    folder = tmp_path / "r"
    watching = start("watch", "r", "--json")
    states = states_of(watching)
    assert next(states)["status"] == "waiting"

    again = ("run", experiment, *OPTIONS, "--out", "r", "--resume")
    process = start(*again, before=OFTEN, hold=20)
    state = next(s for s in states if s["rounds"] >= 20)
    assert state["status"] == "running"
    assert state["planned"] == 60
    first, second = state["parts"]
    assert (first["label"], first["seed"], second["rounds"]) == ("unweighted", 0, 0)
    assert first["accuracy"] > 0
    process.send_signal(signal.SIGKILL)
    process.wait()
    # A half-written line, as a kill may leave it; it is no round and no fault.
    lines = folder / "rounds" / "unweighted" / "seed-0.jsonl"
    with lines.open("a") as file:
        file.write('{"schema": 2, "round": 21, "acc')
    code, out, err = finish("watch", "r", "--once", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["parts"][0]["rounds"] == first["rounds"]
    assert "fault" not in json.loads(out)

    code, _, err = finish(*again, before=OFTEN)
    assert code == 0, err
    last = list(states)[-1]
    assert (last["status"], last["rounds"]) == ("ended", 60)
    assert watching.wait(HANGS) == 0
    assert watching.stderr.read() == ""


@pytest.mark.slow
def test_ctrl_c_leaves_the_run_alone(start, finish, tmp_path, experiment):
    process = start("run", experiment, *OPTIONS, "--out", "r", hold=5)
    watching = start("watch", "r")
    assert any("of 60 rounds" in line for line in watching.stdout)
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=HANGS)
    assert (watching.returncode, err) == (0, "No longer watched.\n")
    assert process.poll() is None
    # Nor does it keep anybody out of the folder, or write anything into it.
    files = {path for path in (tmp_path / "r").rglob("*") if "checkpoints" not in path.parts}
    assert {path.name for path in files} >= {"config.json", "seed-0.jsonl"}
    assert not [path for path in files if path.suffix == ".html"]
    (tmp_path / "go").touch()
    assert process.wait(HANGS) == 0


class Frame:
    """The page of `watch --page` in a browser."""

    def __init__(self, browser: Browser, url: str, **size: int) -> None:
        self.browser = browser
        browser.events.clear()
        browser.ask(
            "Emulation.setDeviceMetricsOverride",
            **{"width": 1280, "height": 800, **size},
            deviceScaleFactor=1,
            mobile=size.get("width", 1280) < 600,
        )
        browser.ask("Page.navigate", url=url)

    def bar(self) -> str:
        return self.browser.value("document.getElementById('says')?.textContent ?? ''")

    def status(self) -> str:
        return self.browser.value("document.getElementById('bar')?.dataset.status ?? ''")

    def version(self) -> str:
        return self.browser.value("document.documentElement.dataset.version ?? ''")

    def report(self, expression: str):
        """Evaluate an expression in the report that is shown, as `page` and `view`."""
        return self.browser.value(
            "(() => { const frame = document.querySelector('iframe:not(.next)');"
            " if (!frame) return null; const view = frame.contentWindow, page = view.document;"
            f" return {expression}; }})()"
        )


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason=WHY_SKIPPED)
def test_the_page_follows_the_run_and_stays_where_the_reader_is(
    start, browser, tmp_path, experiment
):
    watching = start("watch", "r", "--page")
    url = re.search(r"http://127\.0\.0\.1:\d+/", watching.stderr.readline())[0]
    frame = Frame(browser, url)
    wait_until(lambda: "no such folder yet" in frame.bar(), "the bar")
    wait_until(lambda: frame.report("page.body.innerText.includes('no run')"), "the empty page")

    again = ("run", experiment, *OPTIONS, "--out", "r", "--resume")
    process = start(*again, before=OFTEN, hold=20)
    ready = "page.documentElement.dataset.ready === 'true'"
    wait_until(lambda: frame.report(ready), "the report")
    wait_until(lambda: "20 of 60 rounds" in frame.bar(), "round 20")
    wait_until(lambda: frame.report("page.body.innerText.includes('round 20 of 30')"), "its page")
    assert frame.status() == "running"
    assert frame.report("page.querySelectorAll('.plot > svg').length") > 2

    # A reader who has scrolled, opened the config, and hidden a method.
    frame.report("page.querySelector('#setup details').open = true")
    frame.report("page.querySelector('button.legend[aria-pressed=true]').click()")
    frame.report("view.scrollTo(0, page.querySelector('#staleness').offsetTop + 40)")
    top = "page.querySelector('#staleness').getBoundingClientRect().top"
    before, at, version = frame.report("view.scrollY"), frame.report(top), frame.version()
    assert before > 300

    process.send_signal(signal.SIGKILL)
    process.wait()
    process = start(*again, before=OFTEN, hold=50)
    wait_until(lambda: "50 of 60 rounds" in frame.bar(), "round 50")
    wait_until(lambda: frame.report("page.body.innerText.includes('1 of 2 method')"), "its page")
    assert frame.version() != version
    assert frame.report(top) == pytest.approx(at, abs=2)
    assert frame.report("page.querySelector('#setup details').open")
    assert frame.report("page.querySelectorAll('button.legend[aria-pressed=false]').length") > 0

    (tmp_path / "go").touch()
    wait_until(lambda: frame.status() == "ended", "the end")
    wait_until(lambda: frame.report("!page.querySelector('.unfinished')"), "the last page")
    assert process.wait(HANGS) == 0
    asked = {
        event["params"]["request"]["url"].partition("?")[0]
        for event in browser.events
        if event["method"] == "Network.requestWillBeSent"
    }
    pages = {url + path for path in ("", "frame.css", "frame.js", "state", "report")}
    assert {one for one in asked if not one.startswith("data:")} == pages
    complaints = [one for one in browser.complaints() if not one.startswith(url)]
    assert complaints == []

    assert watching.poll() is None, "the page stays until Ctrl-C"
    watching.send_signal(signal.SIGINT)
    assert watching.wait(HANGS) == 0
    wait_until(lambda: frame.status() == "gone", "the watcher's end")
    assert frame.report("page.querySelectorAll('.plot > svg').length") > 2
