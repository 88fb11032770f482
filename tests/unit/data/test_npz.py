import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from unstale.data import npz
from unstale.errors import DataError


def test_arrays_come_in_the_order_asked_for(tmp_path: Path, write_npz) -> None:
    path = write_npz(tmp_path / "a.npz", {"x": np.arange(3), "y": np.array("text")})
    y, x = npz.read_npz(path, "y", "x")
    assert (x.tolist(), y.item()) == ([0, 1, 2], "text")


@pytest.mark.parametrize("content", [b"", b"rubbish", b"PK\x03\x04 rubbish"])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npz should be an \.npz archive"):
        npz.read_npz(path, "x")


@pytest.mark.parametrize("position", [0.3, 0.5, 0.7])
def test_a_flipped_byte_is_seen(tmp_path: Path, write_npz, position: float) -> None:
    values = np.random.default_rng(0).normal(size=500)
    path = write_npz(tmp_path / "a.npz", {"x": values})
    content = bytearray(path.read_bytes())
    content[int(len(content) * position)] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npz"):
        npz.read_npz(path, "x")


def test_a_truncated_archive(tmp_path: Path, write_npz) -> None:
    path = write_npz(tmp_path / "a.npz", {"x": np.arange(1000)})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"a\.npz"):
        npz.read_npz(path, "x")


def test_a_bomb_is_not_unpacked(tmp_path: Path, write_npz, monkeypatch) -> None:
    path = write_npz(tmp_path / "a.npz", {"x": np.zeros(100_000), "y": np.zeros(3)})
    monkeypatch.setattr(npz, "MAX_BYTES", 10_000)
    with pytest.raises(DataError, match="x with 800"):
        npz.read_npz(path, "x")
    assert npz.read_npz(path, "y")[0].tolist() == [0, 0, 0]


def test_a_header_that_claims_more_than_there_is(tmp_path: Path) -> None:
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        member, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    )
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", member.getvalue())
    with pytest.raises(DataError, match=r"a\.npz"):
        npz.read_npz(path, "x")
