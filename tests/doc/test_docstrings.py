"""The examples of all docstrings give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import unstale

SRC = Path(unstale.__file__).parent
MODULES = sorted(
    ".".join(["unstale", *path.relative_to(SRC).with_suffix("").parts]).removesuffix(".__init__")
    for path in SRC.rglob("*.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    result = doctest.testmod(module, report=False)  # its report goes to the captured output
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples failed, see above"


def test_the_examples_are_found():
    """The test above cannot pass by finding nothing."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    server = importlib.import_module("unstale.server.server")
    tested = {t.name for t in finder.find(server) if t.examples}
    assert "unstale.server.server.Server" in tested
    assert {"unstale", "unstale.sim.engine", "unstale.cli.main"} <= set(MODULES)
