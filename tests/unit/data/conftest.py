"""Tests here see no data of the machine: an empty cache and a registry of their own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unstale.data import registry


@pytest.fixture(autouse=True)
def _no_data_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("UNSTALE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(registry, "SOURCES", dict(registry.SOURCES))


@pytest.fixture
def write_npz() -> Callable[..., Path]:
    def write(path: Path, arrays: dict[str, object], **changes: object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {k: v for k, v in {**arrays, **changes}.items() if v is not None}
        np.savez_compressed(path, **content)
        return path

    return write
