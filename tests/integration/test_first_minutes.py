"""What a newcomer meets: the core alone runs the quickstart, and make installs what is wanted."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Finds nothing of what a newcomer does not have.
LACK = """
import sys

class Lacking:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Lacking(one) if hasattr(one, "find_spec") else one for one in sys.meta_path]
"""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def core():
    """The packages that `make quickstart` installs: what the package needs, and what they need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found, waiting = set(), list(project["dependencies"])
    while waiting:
        name = normal(re.match(r"[\w.-]+", waiting.pop())[0])
        if name in found:
            continue
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # on other systems only
            continue
        found.add(name)
        waiting += [one for one in needed if "extra ==" not in one]
    return found


@pytest.mark.slow
def test_the_core_runs_the_quickstart_and_makes_its_page(finish, tmp_path):
    owners = metadata.packages_distributions()
    known = core()
    assert {"torch", "numpy", "scikit-learn", "matplotlib"} <= known
    missing = sorted(
        name
        for name, packages in owners.items()
        if not known & {normal(package) for package in packages} and name != "unstale"
    )
    assert {"flwr", "ray", "datasets", "tensorboard", "mkdocs", "pytest"} <= set(missing)
    short = ("--seeds", "0", "--set", "rounds=45", "--methods", "unweighted,convert")
    options = (*short, "--json", "--out", "r")
    code, out, err = finish("run", "quickstart", *options, before=LACK.format(names=missing))
    assert code == 0, err
    assert json.loads(out)["methods"]["convert"]["conversions"] > 0
    assert (tmp_path / "r" / "report.html").is_file()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_installs_what_is_wanted_and_nothing_twice(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    venv = tmp_path / ".venv"
    venv.mkdir()

    def would_install(target):
        """The installations that make would make, dry."""
        done = subprocess.run(
            ["make", "--dry-run", target], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        lines = [line for line in done.stdout.splitlines() if "set_up.py" in line]
        return [line.partition("set_up.py ")[2] for line in lines]

    assert would_install("quickstart") == [".venv"]
    assert would_install("test") == [".venv", ".venv dev"]
    (venv / ".installed-core").touch()
    assert would_install("quickstart") == []
    assert would_install("test") == [".venv dev"]
    (venv / ".installed-dev").touch()
    assert would_install("test") == would_install("lint") == []
    later = (venv / ".installed-dev").stat().st_mtime + 10
    os.utime(tmp_path / "constraints.txt", (later, later))
    assert would_install("test") == [".venv", ".venv dev"]


@pytest.fixture(scope="module")
def set_up():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("set_up", ROOT / "tools" / "set_up.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (190.1 MB)\n",
            "Downloading torch 2.13.0 (190.1 MB)",
        ),
        ("  Downloading click-8.5.1-py3-none-any.whl.metadata (2.6 kB)\n", None),
        ("  Using cached scikit_learn-1.9.1-cp311-none-any.whl (9 MB)\n", "Taking scikit_learn"),
        ("Installing collected packages: mpmath, numpy, torch\n", "Unpacking 3 packages"),
        ("Requirement already satisfied: numpy<3 in ./x (2.4.6)\n", None),
        ("WARNING: Retrying\n", None),
    ],
)
def test_lines_of_pip_are_said_in_words(set_up, line, said):
    found = set_up.in_words(line)
    assert found == said or (said is not None and found is not None and found.startswith(said))


def test_names_of_files_are_those_of_packages(set_up):
    assert (
        set_up.named("https://x/torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl") == "torch 2.13.0"
    )
    assert set_up.named("PyYAML-6.0.3.tar.gz") == "PyYAML 6.0.3"
    assert set_up.named("odd") == "odd"
