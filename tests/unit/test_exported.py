"""`__all__` of every area is what can be imported from it: no name missing, none misspelt."""

import ast
import importlib
from pathlib import Path

import pytest

import unstale
from unstale import methods

SRC = Path(unstale.__file__).parent
AREAS = sorted(
    ".".join(["unstale", *path.parent.relative_to(SRC).parts]) for path in SRC.rglob("__init__.py")
)


def brought_in(path):
    """The public names that an `__init__` imports to pass on: neither modules nor used there."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unstale")
        for alias in node.names
        if not alias.name.startswith("_")
        and not any((path.parent / f"{alias.name}{end}").exists() for end in (".py", "/"))
    } - used


@pytest.mark.parametrize("area", AREAS)
def test_all_is_what_is_imported(area):
    module = importlib.import_module(area)
    brought = brought_in(Path(module.__file__))
    if not hasattr(module, "__all__"):
        assert not brought, f"{area} imports names but has no __all__"
        return
    stated = list(module.__all__)
    assert [name for name in stated if not hasattr(module, name)] == []
    assert len(set(stated)) == len(stated)
    assert sorted(brought - set(stated)) == []


def test_the_areas_are_found():
    assert {"unstale", "unstale.methods", "unstale.methods.aggregate"} <= set(AREAS)


@pytest.mark.parametrize("package", [unstale, methods], ids=lambda p: p.__name__)
def test_lazy_names_are_those_that_type_checkers_see(package):
    """The table of homes and the imports for type checkers name the same things."""
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (table,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "_HOMES"
    )
    homes = {home: set(names) for home, names in ast.literal_eval(table).items()}
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert {node.module: {a.name for a in node.names} for node in block.body} == homes
    lazy = set.union(*homes.values())
    assert lazy == set(package.__all__) - brought_in(Path(package.__file__))
    folder = Path(package.__file__).parent
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not lazy & modules, "a module of the same name would be found in place of the name"


def test_a_star_gives_exactly_what_is_stated():
    namespace = {}
    exec("from unstale import *", namespace)  # noqa: S102
    assert set(unstale.__all__) == set(namespace) - {"__builtins__"}
