"""Seconds until `unstale --help` is done, beside importing only the libraries it is made of.

Each command runs in a process of its own, by turns, and the best of several is taken,
because the machines are shared. The last column is the ratio to `import click, rich`.

    python benchmarks/startup.py [--turns 10] [--out FILE]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from unstale.run_folder.provenance import provenance, require_clean, write_result

BASE = "python -c 'import click, rich'"
COMMANDS = {
    BASE: ["-c", "import click, rich"],
    "unstale --help": ["-m", "unstale", "--help"],
    "unstale --version": ["-m", "unstale", "--version"],
    "unstale methods": ["-m", "unstale", "methods"],
    "unstale data check": ["-m", "unstale", "data", "check", "--data", "."],
    "python -c 'import torch'": ["-c", "import torch"],
    "the digits": ["-c", "from unstale import data; data.load('digits')"],
    "the digits, by scikit-learn": [
        "-c",
        "from unstale import data; from unstale.data import digits; "
        "digits.find_spec = lambda _: None; data.load('digits')",
    ],
}


def seconds(words: list[str], folder: str) -> float:
    """Return the wall time of one process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=10, help="processes of each command")
    parser.add_argument("--out", type=Path, help="write the seconds to this file")
    options = parser.parse_args()
    require_clean(options.out)
    about = provenance([])
    best = dict.fromkeys(COMMANDS, float("inf"))
    with tempfile.TemporaryDirectory() as folder:  # no data sets there, so nothing to verify
        for turn in range(options.turns + 1):
            for name, words in COMMANDS.items():
                taken = seconds(words, folder)
                if turn:  # the first turn only writes byte code
                    best[name] = min(best[name], taken)
    for name, value in best.items():
        print(f"{name:<32} {1000 * value:7.0f} ms  {value / best[BASE]:6.2f}")
    if options.out:
        write_result(options.out, about, {"turns": options.turns, "seconds": best})


if __name__ == "__main__":
    main()
