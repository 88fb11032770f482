"""Names that are loaded when first used, and classes that are named by a string."""

import subprocess
import sys
import types
from collections import Counter

import pytest

import unstale
from unstale import methods
from unstale.errors import ConfigError, DataError
from unstale.lazy import lazy_names, load_named


def test_a_name_is_loaded_from_its_home_and_kept(monkeypatch):
    package = types.ModuleType("made_up")
    monkeypatch.setitem(sys.modules, "made_up", package)
    package.__getattr__, package.__dir__ = lazy_names("made_up", {"collections": ("Counter",)})
    assert "Counter" in dir(package)
    assert "Counter" not in vars(package)
    assert package.Counter is Counter
    assert vars(package)["Counter"] is Counter
    with pytest.raises(AttributeError, match="'made_up' has no attribute 'nope'"):
        _ = package.nope


@pytest.mark.parametrize("package", [unstale, methods])
def test_an_unknown_name_is_an_attribute_error(package):
    assert not hasattr(package, "Nothing")
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec(f"from {package.__name__} import Nothing")  # noqa: S102


@pytest.mark.parametrize("first", ["chaining", "registry", "conversion.convert", "base"])
def test_names_do_not_depend_on_which_module_was_imported_first(first):
    code = (
        f"import unstale.methods.{first}\n"
        "from unstale.methods import METHODS, chain, method, Convert\n"
        "import unstale\n"
        "assert unstale.chain is chain and callable(chain) and unstale.method is method\n"
        "assert METHODS['convert'].compensator is Convert is unstale.Convert\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_place_gives_what_it_names():
    assert load_named("unstale.errors:DataError") is DataError


@pytest.mark.parametrize(
    "place",
    ["unstale.errors.DataError", "unstale.errors:Nothing", "unstale.nowhere:X", "", ":X"],
)
def test_a_place_with_nothing_there_is_a_config_error(place):
    with pytest.raises(ConfigError, match=r"'package\.module:Class'"):
        load_named(place)
