"""The Markdown files of the project, and the fenced blocks in them."""

import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

FENCE = re.compile(
    r"^(?P<marks>```+|~~~+)[ ]*(?P<language>[\w+-]*)(?P<rest>[^\n]*)\n"
    r"(?P<body>.*?)^(?P=marks)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>[^\n]+?) -->\s*\Z")
TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    body: str
    line: int
    """The line of its first line of content, counted from 1."""
    title: str
    """What the fence gives as `title="…"`."""
    not_run: str
    """The reason in a comment `<!-- not run: reason -->` before it."""
    output: str | None
    """The body of a text block that follows directly."""


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in their order."""
    fences = list(FENCE.finditer(text))
    found = []
    for fence, after in zip_longest(fences, fences[1:]):
        follows = after is not None and not text[fence.end() : after.start()].strip()
        shown = after["body"] if follows and after["language"] == "text" else None
        why = NOT_RUN.search(text, 0, fence.start())
        title = TITLE.search(fence["rest"])
        found.append(
            Block(
                fence["language"],
                fence["body"],
                text.count("\n", 0, fence.start("body")) + 1,
                title[1] if title else "",
                why["reason"] if why else "",
                shown,
            )
        )
    return found


def read(path: Path) -> str:
    """Return a page's text."""
    return path.read_text(encoding="utf-8")


def without_blocks(text: str) -> str:
    """Return a page's prose, blocks and comments taken out."""
    return re.sub(r"<!--.*?-->", "", FENCE.sub("", text), flags=re.DOTALL)
