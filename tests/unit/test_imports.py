"""Imports point one way: from what is used by all to what uses all."""

import ast
from pathlib import Path

import pytest

import unstale

SRC = Path(unstale.__file__).parent

# Each area may import areas of the rows above it, and itself.
LAYERS = [
    {"errors", "seeding", "files", "notes"},
    {"out_places"},
    {"run_folder"},  # below what fills it in: the schema of its lines is everybody's
    {"lazy", "params", "data", "models"},
    {"sinks"},
    {"training", "executors"},
    {"inversion"},
    {"updates", "privacy"},
    {"methods"},
    {"server"},
    {"sim", "flower"},
    {"check"},
    {"experiment"},
    {"reproduce"},
    {"report"},
    {"watch"},
    {"audit"},
    {"cli"},
    {"comparison"},  # `simulate`: its progress and its table are those of the command line
    {"__main__"},
]
RANK = {area: rank for rank, areas in enumerate(LAYERS) for area in areas}

# Narrower than their row: what these may know of the rest.
ONLY = {
    "data": {"errors", "seeding", "files"},
    "models": {"errors", "seeding", "files"},
    "sinks": {"errors", "lazy", "run_folder"},  # a run's lines are all that they get
    "report": {"errors", "files", "notes", "run_folder"},  # a run folder alone makes a report
}


def area_of(path):
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def modules():
    return {
        ".".join(["unstale", *path.relative_to(SRC).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): path
        for path in SRC.rglob("*.py")
        if path != SRC / "__init__.py"
    }


def imports(path):
    """The full names that a file imports, in functions too; types alone left out."""
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports should be absolute"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


FILES = sorted(modules().values())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(SRC).as_posix())
def test_imports_point_one_way(path):
    area = area_of(path)
    assert area in RANK, f"give `{area}` its place in LAYERS"
    for name in imports(path):
        first, _, rest = name.partition(".")
        used = rest.partition(".")[0]
        if first != "unstale" or used not in RANK or used == area:
            continue
        allowed = ONLY.get(area, {a for a in RANK if RANK[a] < RANK[area]})
        assert used in allowed, f"`{area}` should not import `{used}`"


def test_the_report_never_imports_torch():
    """Not even in a function; `tests/unit/cli/test_startup.py` looks at whole processes."""
    for name, path in modules().items():
        if name.startswith("unstale.report"):
            assert not {n for n in imports(path) if n.startswith("torch")}


def test_the_rules_can_fail(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "import torch\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from unstale.training.local import LocalSpec\n"
        "def late():\n    from unstale import server\n    import unstale.sim.engine\n"
    )
    assert imports(file) == {
        "torch",
        "typing.TYPE_CHECKING",
        "unstale.server",
        "unstale.sim.engine",
    }
