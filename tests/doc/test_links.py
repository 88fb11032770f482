"""Links and paths in the documentation lead somewhere."""

import re

import pytest
from doc_pages import PAGES, ROOT, blocks_of, read, without_blocks

LINK = re.compile(r"(?<!\!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
# What is written as code and looks like a file or a folder of the repository.
CODE = re.compile(r"`([^`\n]+)`")
TOP = (ROOT, ROOT / "src" / "unstale")
FOLDERS = ("src", "tests", "docs", "experiments", "benchmarks", "examples", ".ci")
AREAS = tuple(path.parent.name for path in (ROOT / "src" / "unstale").glob("*/__init__.py"))
FILE = re.compile(r"[\w.-]+\.(?:py|md|toml|yml)|Makefile|LICENSE")
# Named as examples of what a user may have, or written by a run.
NOT_OURS = {"config.toml", "my.toml", "item.toml", "sweep.toml", "utils.py", "__init__.py"}


def targets(text):
    """The links of a page that point to a file, without their anchors."""
    found = (link or image for link, image in LINK.findall(without_blocks(text)))
    files = (link.partition("#")[0] for link in found if not re.match(r"[a-z]+:", link))
    return sorted({file for file in files if file})


def paths(text):
    """The paths of the repository that a page names, but for those it tells to make."""
    made = {block.title for block in blocks_of(text)}
    found = set()
    for code in CODE.findall(without_blocks(text)):
        first = code.partition("/")[0]
        ours = "/" in code and first in (*FOLDERS, *AREAS) and not set(code) & set(" *…<>")
        if (ours or FILE.fullmatch(code)) and code not in NOT_OURS | made:
            found.add(code)
    return sorted(found)


@pytest.fixture(params=PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def page(request):
    return request.param


def test_links_lead_to_files(page):
    assert [t for t in targets(read(page)) if not (page.parent / t).exists()] == []


def test_paths_exist(page):
    missing = [p for p in paths(read(page)) if not any((top / p).exists() for top in TOP)]
    assert missing == []


def test_links_and_paths_are_found():
    text = (
        "[a](b.md#c) [d](https://e.f/g.md) ![h](i.png) [j](#k)\n```python\n[l](m.md)\n```\n"
        "`src/unstale/training/local.py` `methods/` `x/y` `local.py` `config.toml` `tests/* here`\n"
        '```python title="src/unstale/new.py"\n```\nMake `src/unstale/new.py`.\n'
    )
    assert targets(text) == ["b.md", "i.png"]
    assert paths(text) == ["local.py", "methods/", "src/unstale/training/local.py"]
