"""The paper is cited by its title and its authors, alike everywhere."""

import tomllib

import pytest
import yaml
from doc_pages import ROOT

import unstale as us

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
(PAPER,) = CITATION["references"]
AUTHORS = [f"{one['given-names']} {one['family-names']}" for one in PAPER["authors"]]


def words(text):
    """The text on one line, without the marks of emphasis."""
    return " ".join(text.replace("*", "").split())


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/conversion.md"])
def test_pages_name_title_and_authors(page):
    text = words((ROOT / page).read_text(encoding="utf-8"))
    assert PAPER["title"] in text
    assert f"{AUTHORS[0]} and {AUTHORS[1]}" in text


def test_the_method_names_the_paper():
    assert PAPER["title"] in words(us.Convert.__doc__)


def test_the_file_is_of_this_version_and_complete():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert CITATION["version"] == project["version"] == us.__version__
    assert CITATION["license"] == project["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)
