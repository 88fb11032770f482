"""What commands import, seen in processes of their own: quick ones never wait for torch."""

import subprocess
import sys

import pytest


def imported_by(*words, folder):
    """Every module that `python WORDS` imports, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}, done.stdout


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], "Commands:"),
        (["--version"], "version"),
        (["run", "--help"], "--resume"),
        (["check", "--help"], "--staleness"),
        (["data", "--help"], "check"),
        (["watch", "--help"], "--page"),
        (["reproduce", "--help"], "--smoke"),
        (["methods"], "convert"),
        (["methods", "--json"], '"does"'),
    ],
    ids=" ".join,
)
def test_help_and_names_need_neither_torch_nor_numpy(arguments, shown, tmp_path):
    modules, out = imported_by("-m", "unstale", *arguments, folder=tmp_path)
    assert shown in out
    assert "unstale.cli.main" in modules
    assert not modules & {"torch", "numpy", "rich.console", "matplotlib"}


def test_data_sets_are_found_and_verified_without_torch(tmp_path):
    modules, out = imported_by(
        "-m", "unstale", "data", "check", "--data", tmp_path, folder=tmp_path
    )
    assert "embedded" in out
    assert {"unstale.data.checking", "unstale.data.idx"} <= modules
    assert "torch" not in modules


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["", "json"])
def test_a_report_is_made_without_torch(options, unstale, small, tmp_path):
    assert unstale("run", *small, "--out", "r").code == 0
    modules, _ = imported_by("-m", "unstale", "report", "r", *options, folder=tmp_path)
    assert (tmp_path / "r" / "report.html").exists()
    assert "unstale.report.write" in modules
    assert "torch" not in modules


def test_a_run_is_watched_without_torch(unstale, small, tmp_path):
    assert unstale("run", *small, "--out", "r").code == 0
    modules, out = imported_by("-m", "unstale", "watch", "r", folder=tmp_path)
    assert "6 of 6 rounds" in out
    assert "unstale.watch.server" in modules
    assert not modules & {"torch", "matplotlib"}


def test_importing_the_command_line_imports_no_torch(tmp_path):
    modules, _ = imported_by("-c", "import unstale.cli", folder=tmp_path)
    assert "unstale.cli" in modules
    assert "torch" not in modules


def test_a_command_that_needs_torch_is_seen_to_import_it(tmp_path):
    """The guards above can fail: a method's settings are read off its class."""
    modules, out = imported_by("-m", "unstale", "methods", "drop", folder=tmp_path)
    assert "max_staleness" in out
    assert "torch" in modules


def test_the_papers_tables_are_listed_without_torch(tmp_path):
    modules, out = imported_by("-m", "unstale", "reproduce", "--json", folder=tmp_path)
    assert '"Table 9"' in out
    assert "torch" not in modules
