"""A wheel is built, installed into an environment of its own, and used from there."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "src")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info")


def ran(*words, cwd):
    """Run a command that knows nothing of this checkout; return what it printed."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the sources, since building writes beside them."""
    copy, out = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheel")
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=LEFT_OUT)
        else:
            shutil.copy(source, copy / name)
    # With the setuptools of this environment: nothing is downloaded.
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    ran(*pip, "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", out, ".", cwd=copy)
    (built,) = out.glob("unstale-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The scripts' folder of an environment with the wheel, which sees this one's libraries."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False)
    scripts = place / ("Scripts" if os.name == "nt" else "bin")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    ran(*pip, "--python", place, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=place)
    own = ran(
        *(scripts / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"),
        cwd=place,
    ).strip()
    # As a path alone: files .pth in there, such as that of this checkout, are not read.
    (Path(own) / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return scripts


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "unstale").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(name.endswith(".js") for name in wanted)
    with zipfile.ZipFile(wheel) as file:
        found = {name for name in file.namelist() if ".dist-info/" not in name}
    assert found == wanted


def test_the_installed_package_runs(installed, tmp_path):
    place = ran(
        installed / "python", "-c", "import unstale; print(unstale.__file__)", cwd=tmp_path
    ).strip()
    assert Path(place).is_relative_to(installed.parent)
    command = installed / "unstale"
    assert ran(command, "--version", cwd=tmp_path).startswith("unstale, version ")
    for experiment in ("quickstart", "quickstart_paper"):
        short = ("--seeds", "0", "--set", "rounds=3", "--methods", "unweighted,convert")
        told = ran(command, "run", experiment, *short, "--out", experiment, cwd=tmp_path)
        assert "Report:" in told
        page = (tmp_path / experiment / "report.html").read_text(encoding="utf-8")
        assert "<style>" in page
        assert "<script" in page
        assert list((tmp_path / experiment / "plots").glob("*.png"))
