"""The comparison of pages with result files, and the writing of what functions make."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from quoted.markers import Marker, MarkError, Number, marks_of, numbers_of, paragraph_start
from quoted.sources import ROOT, SourceError, numbers_in, text_of, values_of


@dataclass(frozen=True)
class Problem:
    """Something on a page that does not hold."""

    page: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.message}"


def pages() -> list[Path]:
    """Return all pages that are checked."""
    patterns = ("README.md", "CONTRIBUTING.md", "docs/*.md", "*/README.md", "*/*/README.md")
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})


def problems_of(page: Path) -> list[Problem]:
    """Return everything on a page that does not hold, in the order of the page."""
    text = page.read_text(encoding="utf-8")
    try:
        found = sorted(_problems(text, page.parent))
    except MarkError as error:
        found = [(error.position, str(error))]
    return [Problem(page, text.count("\n", 0, at) + 1, message) for at, message in found]


def _problems(text: str, folder: Path) -> Iterator[tuple[int, str]]:
    blocks, markers = marks_of(text)
    for block in blocks:
        try:
            made = in_place(text_of(block.words, folder))
        except SourceError as error:
            yield block.start, f"{error}."
            continue
        if made != block.body:
            yield (
                block.start + _first_difference(made, block.body),
                (
                    f"this is not what `{' '.join(block.words)}` makes; "
                    "`python docs/quoted --write` writes it."
                ),
            )
    inside = [range(block.start, block.end) for block in blocks]
    free = [n for n in numbers_of(text) if not any(n.start in block for block in inside)]
    covered: set[Number] = set()
    for marker, numbers in segments(text, markers, free):
        try:
            covered.update(sourced(marker, numbers, folder))
        except SourceError as error:
            yield marker.start, f"{error}."
            covered.update(numbers)  # one message is enough
    for number in free:
        if number.is_figure and number not in covered:
            yield number.start, f"{number.text} {number.unit}".strip() + " has no source."


def sourced(marker: Marker, numbers: Sequence[Number], folder: Path) -> list[Number]:
    """Return the numbers before a marker that are what it says.

    Raises:
        SourceError: If the source does not exist, or if a value of it is not among the numbers.
    """
    if marker.kind == "found in":
        there = numbers_in(marker.words, folder)
        return [number for number in numbers if any(map(number.quotes, there))]
    values = expected(marker, folder)
    found, missing = match(numbers, values)
    if missing is not None:
        raise SourceError(
            f"the numbers before this marker should be {_listed(values)}; "
            f"{missing:g} is not among them"
        )
    return found


def segments(
    text: str, markers: Sequence[Marker], numbers: Sequence[Number]
) -> Iterator[tuple[Marker, list[Number]]]:
    """Yield each marker with its numbers: those since the marker before, in its paragraph."""
    before = 0
    for marker in markers:
        begin = max(before, paragraph_start(text, marker.start))
        yield marker, [n for n in numbers if begin <= n.start < marker.start]
        before = marker.end


def expected(marker: Marker, folder: Path) -> list[float]:
    """Return the values that should stand before a marker.

    Raises:
        SourceError: If the source has none.
    """
    if marker.kind == "from":
        return values_of(marker.words, folder)
    try:
        found = [float(word.replace(",", "").replace("−", "-")) for word in marker.words]
    except ValueError as error:
        raise SourceError(f"`{marker.kind}:` should be followed by the numbers") from error
    if not found:
        raise SourceError(f"`{marker.kind}:` should name the numbers that it is about")
    return found


def match(numbers: Sequence[Number], values: Sequence[float]) -> tuple[list[Number], float | None]:
    """Return the numbers that are the values, found from the last one on, and the first miss."""
    found, at = [], len(numbers)
    for value in reversed(values):
        at -= 1
        while at >= 0 and not (numbers[at].quotes(value) or numbers[at].value == value):
            at -= 1
        if at < 0:
            return found, value
        found.append(numbers[at])
    return found, None


def rewritten(text: str, folder: Path) -> str:
    """Return a page with its blocks made anew, and its figures where each has one value.

    Raises:
        SourceError: If a source is missing.
        MarkError: If a marker cannot be understood.
    """
    blocks, markers = marks_of(text)
    changes = [(b.start, b.end, in_place(text_of(b.words, folder))) for b in blocks]
    inside = [range(block.start, block.end) for block in blocks]
    free = [n for n in numbers_of(text) if not any(n.start in block for block in inside)]
    for marker, numbers in segments(text, markers, free):
        values = expected(marker, folder) if marker.kind == "from" else []
        figures = [number for number in numbers if number.is_figure]
        if len(values) != len(figures) or match(numbers, values)[1] is None:
            continue
        for number, value in zip(figures, values, strict=True):
            exact = value * 100 if number.unit == "%" else value
            changes.append((number.start, number.end, f"{exact:,.{number.decimals}f}"))
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def in_place(made: str) -> str:
    """Return what a function made as it stands between markers: a table on lines of its own."""
    return f"\n\n{made.strip()}\n\n" if "\n" in made.strip() else made.strip()


def _first_difference(made: str, body: str) -> int:
    pairs = enumerate(zip(made, body, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(made), len(body)))


def _listed(values: Iterable[float]) -> str:
    return ", ".join(re.sub(r"(\.\d{4})\d+", r"\1…", repr(value)) for value in values)
