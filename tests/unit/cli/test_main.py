"""Every error is one clear line and an exit code: 1 failed, 2 bad usage or config."""

import errno
import json
import os

import pytest

import unstale as package
from unstale.cli.main import describe
from unstale.errors import ConfigError, RunError, UnknownNameError


def assert_one_line(result, code, *parts):
    assert result.code == code
    assert result.out == ""
    assert "Traceback" not in result.err
    lines = result.err.strip().splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("Error: ")
    for part in parts:
        assert part in lines[0]


def test_help_and_version(unstale):
    result = unstale("--help")
    assert result.code == 0
    for command in ("run", "check", "audit", "methods", "report", "data"):
        assert command in result.out
    assert unstale("run", "-h").code == 0
    assert unstale("--version").out.strip() == f"unstale, version {package.__version__}"


@pytest.mark.parametrize(
    "arguments", [("nope",), ("run", "--nope"), ("run", "a", "b"), ("report",), ("run", "--out")]
)
def test_bad_usage(arguments, unstale):
    result = unstale(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert "Error: " in result.err


def test_bad_toml(unstale, tmp_path):
    (tmp_path / "bad.toml").write_text("rounds = = 3")
    assert_one_line(unstale("run", "bad.toml"), 2, "bad.toml should be valid TOML", "line 1")


def test_missing_file(unstale):
    assert_one_line(unstale("run", "nope.toml"), 2, "nope.toml")


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("roundz=3", ["'roundz'", "Did you mean 'rounds'"]),
        ("local.lrr=3", ["[local]", "Did you mean 'lr'"]),
        ('methods=["unweigted"]', ["Did you mean 'unweighted'"]),
        ("methods.weighted.aa=1", ["'aa'", "method 'weighted'"]),
        ("model.name=digit", ["Did you mean 'digits'"]),
        ("rounds=true", ["`rounds` should be a whole number. Found True"]),
        ("partition.samples=100000", ["100000"]),
        ("rounds", ["key=value"]),
    ],
)
def test_bad_config(override, parts, unstale, tmp_path):
    assert_one_line(unstale("run", "--set", override), 2, *parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seeds", ["", "a", "0,", "0,0", "-1", "1.5", "0;1"])
def test_bad_seeds(seeds, unstale, tmp_path):
    assert_one_line(unstale("run", "--seeds", seeds), 2, "seeds")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["nope", "meta", "cuda:99"])
def test_unknown_device(device, unstale, tmp_path):
    assert_one_line(unstale("run", "--device", device), 2, f"'{device}'")
    assert list(tmp_path.iterdir()) == []


def test_missing_data(unstale, tmp_path):
    result = unstale("run", "--set", "data.name=mnist", "--data", tmp_path / "none", "--out", "r")
    assert_one_line(result, 1, "mnist", str(tmp_path / "none"))
    assert not (tmp_path / "r").exists()


def test_a_model_that_does_not_fit_the_data(unstale, tmp_path):
    result = unstale("run", "--set", "model.name=lenet", "--out", "r")
    assert_one_line(result, 2, "lenet")
    assert not (tmp_path / "r").exists()


def test_a_folder_that_cannot_be_written(unstale, tmp_path, small):
    (tmp_path / "file").write_text("in the way")
    assert_one_line(unstale("run", *small, "--out", "file"), 2, "file", "--out", "another place")
    assert_one_line(unstale("run", *small, "--out", "file/below"), 2, "file/below", "below file")
    # Nobody may make a folder there, not even root.
    assert_one_line(unstale("run", *small, "--out", "/proc/run"), 2, "/proc/run", "another place")
    assert_one_line(unstale("run", *small, "--out", "x" * 300), 2, "another place")
    assert "empty text" in (nameless := unstale("run", *small, "--out", "")).err
    assert nameless.code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_threads_are_a_setting_of_the_command(unstale, tmp_path, small):
    assert_one_line(unstale("run", *small, "--threads", "0"), 2, "`threads`", "at least 1")
    for options, wanted in (((), 1), (("--threads", "2"), 2)):
        folder = f"threads-{wanted}"
        assert unstale("run", *small, *options, "--no-report", "--out", folder).code == 0
        environment = json.loads((tmp_path / folder / "environment.json").read_text())
        assert environment["threads"] == wanted


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_somebody_else(unstale, tmp_path, small):
    (tmp_path / "theirs").mkdir(mode=0o555)
    result = unstale("run", *small, "--out", "theirs/run")
    assert_one_line(result, 2, "theirs/run", "you may not write")


def test_pages_into_impossible_places(unstale, tmp_path, small):
    (tmp_path / "file").write_text("in the way")
    assert unstale("run", *small, "--out", "r", "--no-report").code == 0
    for option in ("--out", "--csv"):
        assert_one_line(unstale("report", "r", option, "file/page"), 2, option, "file/page")
        assert_one_line(unstale("report", "r", option, "r"), 2, option, "which is a folder")
    assert_one_line(unstale("audit", "--out", "file/page.html"), 2, "--out", "file/page.html")
    assert_one_line(unstale("reproduce", "main_table", "--out", "file"), 2, "--out", "file")
    assert_one_line(unstale("keep", "r", "file/kept"), 2, "file/kept")


def test_a_full_disk(unstale, tmp_path, small, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    with monkeypatch.context() as patch:
        patch.setattr("unstale.run_folder.lines.Lines.append", full)
        result = unstale("run", *small, "--out", "r")
    assert result.code == 1
    assert "Traceback" not in result.err
    assert "disk should have room" in result.err.splitlines()[-1]
    assert "--resume" in result.err.splitlines()[-1]
    assert unstale("run", *small, "--out", "r", "--resume").code == 0


def test_debug_gives_the_traceback(tmp_path, monkeypatch):
    from unstale.cli import main

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="roundz"):
        main(["--debug", "run", "--set", "roundz=3"])


def test_what_nobody_foresaw(unstale, monkeypatch, small):
    def broken(*_, **__):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("unstale.experiment.run_experiment", broken)
    result = unstale("run", *small)
    assert_one_line(result, 1, "ZeroDivisionError: by zero", "--debug")


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (RunError("as it is."), ["as it is."]),
        (UnknownNameError("A", "b", ["c"]), ["should be one of: c"]),
        (OSError(errno.ENOSPC, "No space", "x"), ["room", "(x)", "--resume"]),
        (OSError(errno.EDQUOT, "Quota"), ["room", "--resume"]),
        (OSError(errno.EFBIG, "File too large"), ["room", "--resume"]),
        (PermissionError(errno.EACCES, "Permission denied", "x"), ["Permission denied (x)"]),
        (OSError("without a number"), ["without a number"]),
        (MemoryError(), ["Memory ran out"]),
        (KeyError("x"), ["should not happen: KeyError"]),
    ],
)
def test_describe(error, parts):
    text = describe(error)
    assert "\n" not in text
    for part in parts:
        assert part in text
