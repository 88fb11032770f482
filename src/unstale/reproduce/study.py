"""Study scripts of items: their command line, and the order of what they do.

A script computes one seed, writes its result file, and draws its picture from that file alone.
`study.py` in the folder of an item is then three parts: what is computed, how it is drawn, and

    if __name__ == "__main__":
        run_study(__doc__, study, draw)
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from unstale.data import Dataset, load
from unstale.errors import ConfigError
from unstale.run_folder.provenance import provenance, require_clean, write_result


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """What a study is given."""

    seed: int
    """Seeds everything that it draws."""
    smoke: bool = False
    """Whether it should take seconds, on digits, to show that it works."""
    device: str = "cpu"
    """The torch device."""
    data_root: str | None = None
    """The folder of data sets."""

    def data(self, name: str) -> Dataset:
        """Return a data set; digits, which are embedded, in a smoke run."""
        return load("digits" if self.smoke else name, self.data_root)


Result = Mapping[str, Any]


def run_study(
    about: str | None,
    study: Callable[[StudyOptions], Result],
    draw: Callable[[Result, Path], None],
    words: Sequence[str] | None = None,
) -> None:
    """Run a study as its command line says.

    Args:
        about: The docstring of the script, of which `--help` shows the first line.
        study: Computes the result of one seed.
        draw: Draws a result into a PNG.
        words: The command line; that of the process if not given.

    Raises:
        ConfigError: If it is given several seeds.
        RunError: If the result is meant for the repository and the tree has changes.
    """
    arguments = _parser(about).parse_args(words)
    if arguments.draw:
        draw(_read(arguments.draw), arguments.draw.with_suffix(".png"))
        return
    if len(arguments.seeds) != 1:
        raise ConfigError(
            f"A study should get one seed for each file. Found {arguments.seeds}. Name the file "
            "with {seed} in item.toml, or call the script once for each seed."
        )
    require_clean(arguments.out)
    origin = provenance(arguments.seeds, arguments.device)
    options = StudyOptions(arguments.seeds[0], arguments.smoke, arguments.device, arguments.data)
    write_result(arguments.out, origin, study(options))
    draw(_read(arguments.out), arguments.out.with_suffix(".png"))


def mean_of(folder: Path, files: str, *words: str) -> list[float]:
    """Return means over result files, one file for each seed, for the figures of a page.

    Args:
        folder: The folder of the item.
        files: The names of the files in `results`, as `mnist_*.json`.
        words: Where in each file a figure is: keys, and places in lists, with `/` between.

    Raises:
        ConfigError: If there is no such file.
    """
    found = [_read(path) for path in sorted((folder / "results").glob(files))]
    if not found:
        raise ConfigError(
            f"Figures should come from result files. There is no results/{files} in {folder}."
        )
    return [fmean(_number(one, word) for one in found) for word in words]


def _number(found: Any, word: str) -> float:
    for key in word.split("/"):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return float(found)


def _parser(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="digits, in seconds")
    parser.add_argument("--seeds", type=_whole_numbers, default=[10], help="one seed [10]")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", help="the folder of data sets")
    parser.add_argument("--draw", type=Path, help="only draw this result file anew")
    parser.add_argument("--out", type=Path, default=Path("result.json"), help="the result file")
    return parser


def _whole_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _read(path: Path) -> Result:
    found: Result = json.loads(path.read_text(encoding="utf-8"))
    return found
