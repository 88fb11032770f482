"""The command line in this process: what it prints, and its exit code."""

from typing import NamedTuple

import pytest

from unstale.cli import main

SMALL = (
    "--no-report", "--seeds", "0", "--set", "rounds=3", "--set", "local.epochs=1",
    "--set", 'methods=["no_delay", "unweighted"]',
)  # fmt: skip


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def unstale(capsys, monkeypatch, tmp_path):
    """Run `unstale ARGUMENTS` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda handle: None)

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return Result(caught.value.code, out, err)

    return run


@pytest.fixture
def small():
    """Options that make the quickstart a matter of milliseconds."""
    return SMALL
