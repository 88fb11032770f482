"""Sets up the virtual environment of a checkout, and says what it is doing all the while.

    python tools/set_up.py .venv          the package and what it needs
    python tools/set_up.py .venv dev      and what its tests, its docs and Flower need

The Makefile calls it. pip installs, with the versions of constraints.txt; of its output one line
for each package is shown, with the seconds so far, and all of it if it fails.
"""

import queue
import re
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# After so many seconds without news the last line is said again, with the time.
PATIENCE = 5.0
# Small packages are unpacked many a second: one of them is named.
HURRY = 1.0
# pip's own lines about a download; the size is not always there.
DOWNLOAD = re.compile(
    r"\s*Downloading (?P<file>\S+\.(?:whl|tar\.gz|zip))(?=\s|$)(?: \((?P<size>[^)]+)\))?"
)
CACHED = re.compile(r"\s*Using cached (?P<file>\S+\.(?:whl|tar\.gz|zip))(?=\s|$)")
INSTALLING = re.compile(r"Installing collected packages: (?P<names>.+)")
FILE = re.compile(r"(?P<name>[^/]+?)-(?P<version>\d[^-]*?)(?:-[^/]*)?(?:\.whl|\.tar\.gz|\.zip)$")


def main(words: list[str]) -> int:
    """Set up; return 0, or what pip returned."""
    if not 1 <= len(words) <= 2:
        sys.stderr.write(__doc__ or "")
        return 2
    folder, extra = Path(words[0]).resolve(), "".join(words[1:])
    began = time.monotonic()
    news = News(began)
    if not any(folder.glob("*/python*")):
        news.say(f"Creating the virtual environment {words[0]}")
        venv.create(folder, with_pip=True)
    what = "what tests, docs and Flower need" if extra else "the package and what it needs"
    news.say(f"Looking for {what}")
    python = next(path for path in folder.glob("*/python*") if path.stem == "python")
    code, output = install(python, f".[{extra}]" if extra else ".", news)
    if code:
        sys.stderr.write(f"{output}\nInstalling failed; pip says why above.\n")
        return code
    news.say("Installed")
    return 0


class News:
    """Lines with the seconds since the beginning."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.last = ""

    def say(self, text: str) -> None:
        """Say something new."""
        self.last = text
        print(f"{time.monotonic() - self.began:4.0f} s  {text}", flush=True)

    def say_again(self) -> None:
        """Say that it is still so."""
        print(f"{time.monotonic() - self.began:4.0f} s    … {self.last}", flush=True)


def install(python: Path, what: str, news: News) -> tuple[int, str]:
    """Have pip install the checkout; return its exit code and all that it wrote."""
    words = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    words += ["--constraint", "constraints.txt", "--editable", what]
    process = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process, said), daemon=True).start()
    lines = []
    order: list[str] = []
    before = count = packages(python)
    heard = time.monotonic()
    while True:
        try:
            line = said.get(timeout=0.5)
            if line is None:
                break
            lines.append(line)
            if text := in_words(line):
                news.say(text)
                heard = time.monotonic()
            if found := INSTALLING.match(line):
                order = [name.strip() for name in found["names"].split(",")]
        except queue.Empty:
            pass
        silent = time.monotonic() - heard
        # pip is silent while it unpacks, one after the other.
        if order and silent >= HURRY and count < (count := packages(python)) < before + len(order):
            at = count - before
            news.say(f"Unpacking {order[at]} ({at + 1} of {len(order)})")
            heard = time.monotonic()
        elif silent >= PATIENCE:
            news.say_again()
            heard = time.monotonic()
    return process.wait(), "".join(lines)


def in_words(line: str) -> str | None:
    """Return what one line of pip means to whoever waits; None if nothing.

    >>> in_words("  Downloading click-8.5.1-py3-none-any.whl (108 kB)")
    'Downloading click 8.5.1 (108 kB)'
    >>> in_words("Requirement already satisfied: numpy") is None
    True
    """
    if found := DOWNLOAD.match(line):
        size = f" ({found['size']})" if found["size"] else ""
        return f"Downloading {named(found['file'])}{size}"
    if found := CACHED.match(line):
        return f"Taking {named(found['file'])} from pip's cache"
    if found := INSTALLING.match(line):
        return f"Unpacking {len(found['names'].split(','))} packages"
    return None


def named(file: str) -> str:
    """Return name and version of a file of a package.

    >>> named("https://host/torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl")
    'torch 2.13.0'
    """
    found = FILE.match(file.rpartition("/")[2])
    return f"{found['name']} {found['version'].partition('%2B')[0]}" if found else file


def packages(python: Path) -> int:
    """Return how many packages are installed."""
    folder = python.parents[1]
    roots = [*folder.glob("lib/python*/site-packages"), folder / "Lib" / "site-packages"]
    return sum(1 for root in roots for _ in root.glob("*.dist-info"))


def _read(process: "subprocess.Popen[str]", said: "queue.Queue[str | None]") -> None:
    for line in _lines(process):
        said.put(line)
    said.put(None)


def _lines(process: "subprocess.Popen[str]") -> Iterator[str]:
    assert process.stdout is not None
    yield from process.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
