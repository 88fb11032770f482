"""Fake run folders for the report's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_run import write_fake_run
from fake_run import write_surrogates as write_surrogates_into

from unstale.report import read_run
from unstale.report.context import Context


@pytest.fixture
def fake_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run folder; takes what `write_fake_run` takes."""

    def write(name: str = "run", **settings: object) -> Path:
        return write_fake_run(tmp_path / name, **settings)

    return write


@pytest.fixture
def write_surrogates() -> Callable[..., Path]:
    """Write surrogates into a fake run folder."""
    return write_surrogates_into


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the usual size, for reading only."""
    return write_fake_run(tmp_path_factory.mktemp("runs") / "finished")


@pytest.fixture
def context_of() -> Callable[[Path], Context]:
    """Read a folder into what the page and the PNGs are made from."""

    def make(folder: Path) -> Context:
        return Context.of(read_run(folder))

    return make
