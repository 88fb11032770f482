"""`Adding a method` in CONTRIBUTING.md is true: followed to the letter in a copy, it works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import ROOT, blocks_of, read


def apply_diff(text, diff):
    """Return `text` with the hunks of a short diff applied; each must fit in one place."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if not line.startswith("+"))
        new = "".join(line[1:] for line in lines if not line.startswith("-"))
        places = [m.start() for m in re.finditer(f"^{re.escape(old)}", text, re.MULTILINE)]
        assert len(places) == 1, f"this should be there once: {old}"
        text = text[: places[0]] + new + text[places[0] + len(old) :]
    return text


# What the page tells to write anew and to change, in its order.
STEPS = [
    block
    for block in blocks_of(read(ROOT / "CONTRIBUTING.md"))
    if block.title and block.language in ("python", "diff")
]
FILES = [block.title for block in STEPS]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the sources and tests after all steps."""
    top = tmp_path_factory.mktemp("repository")
    for folder in ("src", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / folder, top / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", top)
    for block in STEPS:
        path = top / block.title
        if block.language == "python":
            assert not path.exists()
            path.write_text(block.body, encoding="utf-8")
        else:
            path.write_text(apply_diff(path.read_text("utf-8"), block.body), encoding="utf-8")
    return top


def run(copy, *words):
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *words]
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_method_is_there_and_passes_the_tests(copy):
    assert "rounds = 10.0" in run(copy, "-m", "unstale", "methods", "half_life")
    (written,) = [name for name in FILES if Path(name).name == "test_half_life.py"]
    tests = ["methods/test_conformance.py", "methods/test_registry.py"]
    tests += ["test_exported.py", "test_imports.py"]
    # Of the conformance list only what is for the new method: the rest runs elsewhere.
    chosen = ["-k", "half_life or not test_conformance"]
    files = [written, *(f"tests/unit/{name}" for name in tests)]
    out = run(copy, "-m", "pytest", "-v", "-p", "no:cacheprovider", *chosen, *files)
    assert "[half_life]" in out, "the conformance tests should take the new method by its name"
    assert "test_half_life.py" in out


def test_it_is_as_clean_as_the_rest(copy):
    pytest.importorskip("ruff")
    run(copy, "-m", "ruff", "check", "--no-cache", *FILES)
    run(copy, "-m", "ruff", "format", "--no-cache", "--check", *FILES)
    pytest.importorskip("mypy")
    sources = [name for name in FILES if name.startswith("src/")]
    # What it knows of torch is the same here as in the repository, and takes long to learn.
    run(copy, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache"), *sources)


def test_a_diff_that_does_not_fit_is_found():
    assert apply_diff("a\nb\n", " a\n+c\n@@\n-b\n+d\n") == "a\nc\nd\n"
    with pytest.raises(AssertionError, match="once"):
        apply_diff("a\na\n", " a\n+c\n")
