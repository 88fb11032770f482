"""The numbers and the markers of a Markdown page."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KINDS = ("paper", "setting", "arithmetic")
"""Figures without a result file: the paper's; settings, aims and limits that we chose; and
what follows from numbers that stand beside it."""

WORDS = "|".join(("from", "found in", "made by", "end", *KINDS))
COMMENT = re.compile(rf"<!--\s*(?P<word>{WORDS})\b(?P<rest>.*?)-->", re.DOTALL)
# Where a number is no figure: code, formulas, targets of links, comments and tags.
HIDDEN = re.compile(
    r"^(?P<fence>```+|~~~+)[^\n]*\n.*?^(?P=fence)[ ]*$|(?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`)|"
    r"\$\$.+?\$\$|\$[^$\n]+\$|\]\([^)\s]*\)|<!--.*?-->|</?[a-zA-Z][^>\n]*>",
    re.MULTILINE | re.DOTALL,
)
UNITS = r"%|×(?!\s?\d)|times\b|ms\b|s\b|seconds?\b|minutes?\b|hours?\b|[kMG]i?B\b|[GT]FLOP/s"
NUMBER = re.compile(
    r"(?<![\w.,])(?<![\w.]-)(?P<sign>(?<![^\s(|~])[-−])?(?P<digits>\d{1,3}(?:,\d{3})+|\d+)(?P<decimals>\.\d+)?"
    rf"(?![\w·]|\.\d|,\d{{3}}(?!\d))(?:[*]{{0,2}}[ ]?(?P<unit>{UNITS}))?"
)
LIST = re.compile(r"(?:,| and| to| or|,? and|–)\s*")
# What stands before a number that is a version or a setting, and after one.
BEFORE = re.compile(
    r"(?:Python|PyTorch|Flower|flwr|Ray|Since|CC BY|BY-SA|"
    r"SGD|learning rate(?: of)?|momentum(?: of)?|"
    r"[Ss]parsity(?: of)?|Dirichlet\(?|\b[abαβγλτ]\s?[=≥≤])\s*$"
)
AFTER = re.compile(r"\s*\[?(?:sparse|sparsity)\b")


@dataclass(frozen=True)
class Number:
    """One number of a page."""

    text: str
    value: float
    decimals: int
    unit: str
    start: int
    end: int
    is_figure: bool
    """Whether it has to have a source."""

    def quotes(self, value: float) -> bool:
        """Return whether this is `value`, rounded as it is written; 63 % is 0.63."""
        exact = value * 100 if self.unit == "%" else value
        return abs(self.value - exact) <= 0.5 * 10.0**-self.decimals + 1e-9


@dataclass(frozen=True)
class Marker:
    """A comment that says where the numbers before it are from."""

    kind: str
    """`from`, `found in`, or one of `KINDS`."""
    words: Sequence[str]
    start: int
    end: int


@dataclass(frozen=True)
class Block:
    """A part of a page that a function writes."""

    words: Sequence[str]
    body: str
    start: int
    """Where the body begins; the marker is before it."""
    end: int


class MarkError(ValueError):
    """A marker that cannot be understood; carries its position on the page."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def without_hidden(text: str) -> str:
    """Return a page with code, formulas, links' targets and comments as spaces.

    Example:
        >>> without_hidden("a `0.123` $x^2$ b [0.45](c_0.6.md)<!-- from: d -->").split()
        ['a', 'b', '[0.45']
    """
    return HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def numbers_of(text: str) -> list[Number]:
    """Return all numbers of a page, in their order.

    A number in a list takes the unit at its end: in "5 to 8 %" both are percentages.

    Example:
        >>> [(n.text, n.is_figure) for n in numbers_of("0.93 of 40, 5 to 8 % with PyTorch 2.13")]
        [('0.93', True), ('40', False), ('5', True), ('8', True), ('2.13', False)]
    """
    shown = without_hidden(text)
    found: list[Number] = []
    for match in reversed(list(NUMBER.finditer(shown))):
        digits, decimals = match["digits"].replace(",", ""), match["decimals"] or ""
        start, end = match.start("digits"), match.end("decimals" if decimals else "digits")
        unit = match["unit"] or ""
        if not unit and found and LIST.fullmatch(shown, end, found[-1].start):
            unit = found[-1].unit
        line = shown[shown.rfind("\n", 0, start) + 1 :]
        precise = len(decimals) > (1 if line.lstrip().startswith("|") else 2)
        stated = BEFORE.search(shown, 0, start) or AFTER.match(shown, match.end())
        found.append(
            Number(
                match["digits"] + decimals,
                (-1 if match["sign"] else 1) * float(digits + decimals),
                max(len(decimals) - 1, 0),
                unit,
                start,
                end,
                is_figure=bool(precise or unit) and not stated,
            )
        )
    return found[::-1]


def marks_of(text: str) -> tuple[list[Block], list[Marker]]:
    """Return the blocks that functions write, and the markers of single numbers.

    Raises:
        MarkError: If a block has no end, an end no block, or GitHub would show a marker.
    """
    blocks, markers = [], []
    begun: re.Match[str] | None = None
    for mark in _marks(text):
        if mark["word"] == "end":
            if begun is None:
                raise MarkError(
                    "`<!-- end -->` should follow a `<!-- made by: … -->`", mark.start()
                )
            body = text[begun.end() : mark.start()]
            blocks.append(Block(_words(begun), body, begun.end(), mark.start()))
            begun = None
        elif begun is not None:
            raise MarkError("`<!-- made by: … -->` should have an `<!-- end -->`", begun.start())
        elif mark["word"] == "made by":
            begun = mark
        elif not text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()].strip(" \t>*-"):
            raise MarkError("a marker should follow its number on the same line", mark.start())
        else:
            markers.append(Marker(mark["word"], _words(mark), mark.start(), mark.end()))
    if begun is not None:
        raise MarkError("`<!-- made by: … -->` should have an `<!-- end -->`", begun.start())
    return blocks, markers


def paragraph_start(text: str, position: int) -> int:
    """Return where the paragraph around a position begins: after the last blank line."""
    found = list(re.finditer(r"\n[ \t]*\n", text[:position]))
    return found[-1].end() if found else 0


def _marks(text: str) -> Iterator[re.Match[str]]:
    """Yield the markers that are no code."""
    hidden = [match.span() for match in HIDDEN.finditer(text) if match["fence"] or match["tick"]]
    for mark in COMMENT.finditer(text):
        if not any(start <= mark.start() < end for start, end in hidden):
            yield mark


def _words(mark: re.Match[str]) -> list[str]:
    if not mark["rest"].startswith(":"):
        raise MarkError(f"`{mark['word']}` should be followed by a colon", mark.start())
    if "--" in mark["rest"]:  # GitHub would show the comment
        raise MarkError("a marker should not contain `--`", mark.start())
    return shlex.split(mark["rest"][1:])
