"""A headless Chromium for tests, driven over its debugging pipe.

That needs nothing but the standard library.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
HANGS = 600  # seconds after which a test gives up; none is expected to come near
WHY_SKIPPED = "no chromium, chromium-browser or google-chrome is installed"

# Chromium reads commands from descriptor 3 and writes answers to 4.
_LAUNCH = """
import fcntl, os, sys
source, sink = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3])
os.dup2(source, 3)
os.dup2(sink, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One page of a headless browser."""

    def __init__(self, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _LAUNCH, str(commands), str(answers)),
                *(str(BROWSER), *_FLAGS, f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        os.set_blocking(self._answers, False)
        self._buffer = b""
        self._asked = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        self.width = 0
        target = next(
            info for info in self.ask("Target.getTargets")["targetInfos"] if info["type"] == "page"
        )
        self._session = self.ask(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events on the way are kept."""
        self._asked += 1
        message: dict[str, Any] = {"id": self._asked, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + HANGS
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._asked:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert time.monotonic() < deadline, "the browser does not answer"
            try:
                chunk = os.read(self._answers, 1 << 20)
                assert chunk, "the browser has gone"
                self._buffer += chunk
            except BlockingIOError:
                time.sleep(0.01)
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(
        self,
        page: Path,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        ready: str = "dataset.ready === 'true'",
    ) -> None:
        """Open a page at a size and theme, and wait until it says that it is drawn.

        Pages that are not ours say so otherwise: by `ready`, of the root element.

        Raises:
            AssertionError: When a script raised before that.
        """
        self.events.clear()
        self.width = width
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + HANGS
        done = ready if scripts else "querySelector('footer') !== null"
        while not self.value(
            f"document.readyState === 'complete' && document.documentElement.{done}"
        ):
            failed = any(event["method"] == "Runtime.exceptionThrown" for event in self.events)
            assert not failed, f"the page was never drawn: {self.complaints()}"
            assert time.monotonic() < deadline, "the browser does not come to an end"
            time.sleep(0.05)

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Return what went to the console as an error, and what asked for the network."""
        self.value("1")  # collects whatever was sent until now
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] in ("Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(str(params))
            elif event["method"] == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    found.append(url)
        return found

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Save a picture, for people."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the browser and all that it started."""
        os.close(self._commands)
        os.close(self._answers)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=HANGS)


def drawn(browser: Browser) -> dict[str, int]:
    """Return how many marks each chart drew, by its id."""
    return browser.value(
        "Object.fromEntries([...document.querySelectorAll('figure.chart')].map((figure) =>"
        " [figure.id, Number(figure.querySelector('.plot > svg')?.dataset.marks ?? 0)]))"
    )


def overflow(browser: Browser) -> int:
    """Return by how many pixels the page is wider than the screen."""
    # Not window.innerWidth: on a phone that grows with what overflows.
    return browser.value("document.documentElement.scrollWidth") - browser.width


SIZES = {
    "desktop": {"width": 1280},
    "phone": {"width": 390, "height": 844},
    "dark": {"width": 1280, "dark": True},
    "dark phone": {"width": 390, "height": 844, "dark": True},
    "small phone": {"width": 320, "height": 568},
}
