"""The first minutes of a newcomer: from a fresh clone to the quickstart's table.

Each commit is cloned into an empty folder, and `make quickstart` runs there in a terminal of its
own, with nothing from pip's cache. Measured are the seconds until everything is installed, until
the table is there and until the command ends; the longest time without a new line of output,
pip's warnings not counted; and the size of what is installed. Commits take turns.

    python benchmarks/first_minutes.py BEFORE AFTER [--turns 2] [--out FILE]

Needs Linux or macOS (a pseudo terminal), git, make and `du`.
"""

import argparse
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unstale.run_folder.provenance import provenance, require_clean, source_root, write_result

TARGET = "quickstart"
# Terminals take these to move the cursor and to choose colours.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# The command's last lines come right after the table.
AFTER_TABLE = "Run: "


def main() -> int:
    """Measure all commits by turns and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commits", nargs="+", help="commits to try, such as 1bac58d HEAD")
    parser.add_argument("--turns", type=int, default=1, help="fresh clones of each commit")
    parser.add_argument("--out", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    require_clean(options.out)
    about = provenance([10, 11, 12])  # the quickstart's
    rows = []
    for turn in range(options.turns):
        for commit in options.commits:
            rows.append({"turn": turn, **first_minutes(commit)})
            print(rows[-1], flush=True)
    if options.out:
        write_result(options.out, about, {"rows": rows})
    return 0


def first_minutes(commit: str) -> dict[str, Any]:
    """Clone a commit into an empty folder, run the quickstart there, and measure."""
    root = source_root()
    name = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "--short=12", commit],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "unstale"
        start = time.monotonic()
        for words in (
            ["clone", "--quiet", "--no-local", str(root), str(clone)],
            ["-C", str(clone), "checkout", "--quiet", name],
        ):
            subprocess.run(["git", *words], check=True)
        found: dict[str, Any] = {"commit": name, "cloned_s": time.monotonic() - start}
        found |= watched(clone, start)
        found["total_s"] = time.monotonic() - start
        size = subprocess.run(
            ["du", "-sk", str(clone / ".venv")], check=True, capture_output=True, text=True
        ).stdout
        found["installed_mb"] = int(size.split()[0]) * 1024 / 1e6
        packages = (clone / ".venv").glob("lib/python*/site-packages/*.dist-info")
        found["packages"] = sum(1 for _ in packages)
    return found


def watched(clone: Path, start: float) -> dict[str, Any]:
    """Run `make quickstart` and note when what appears, in seconds since `start`."""
    found: dict[str, Any] = {"first_line_s": None, "installed_s": None, "table_s": None}
    silent, last = 0.0, start
    for line in in_terminal(["make", TARGET], clone):
        now = time.monotonic()
        if found["installed_s"] is None and any((clone / ".venv").glob(".installed*")):
            found["installed_s"] = now - start
        if line is None or not line.strip() or line.startswith("WARNING:"):
            continue
        found["first_line_s"] = found["first_line_s"] or now - start
        if line.startswith(AFTER_TABLE):
            found["table_s"] = now - start
        silent, last = max(silent, now - last), now
    return {**found, "longest_silence_s": silent}


def in_terminal(words: list[str], folder: Path) -> Iterator[str | None]:
    """Run a command in a pseudo terminal; yield its lines, and None every now and then.

    What overwrites a line, as a progress bar does, is a line too.

    Raises:
        SystemExit: If the command fails.
    """
    environment = {**os.environ, "PIP_NO_CACHE_DIR": "1", "COLUMNS": "100", "TERM": "xterm"}
    # The package under test is the clone's, and its environment is its own.
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "OMP_NUM_THREADS"):
        environment.pop(name, None)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, cwd=folder, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    rest, said = "", ""
    try:
        while True:
            if not select.select([ours], [], [], 0.1)[0]:
                yield None
                continue
            try:
                content = os.read(ours, 1 << 16)
            except OSError:  # Linux's way to say that nobody writes any more
                content = b""
            if not content:
                break
            rest += content.decode(errors="replace")
            *lines, rest = re.split(r"[\r\n]+", rest)
            for line in lines:
                said = CONTROL.sub("", line)
                yield said
    finally:
        os.close(ours)
        code = process.wait()
    if code:
        raise SystemExit(f"`{' '.join(words)}` should succeed. Found {code}: {said}")


if __name__ == "__main__":
    sys.exit(main())
