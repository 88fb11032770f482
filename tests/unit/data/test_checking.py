import hashlib
from pathlib import Path

import pytest
import torch

from unstale import data
from unstale.errors import DataError

CONTENT = b"0.25 0.75"


def _read(files: dict[str, Path]) -> data.Dataset:
    values = files["values.txt"].read_bytes()
    if len(values.split()) != 2:
        raise DataError(f"{files['values.txt']} should hold two numbers.")
    x, y = torch.tensor([[float(v)] for v in values.split()]), torch.tensor([0, 1])
    return data.Dataset("pair", x, y, x, y, ("a", "b"), 0.0, 1.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    checksum = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    layout = data.Layout(_read, {"values.txt": checksum}, ("pair",))
    data.register("pair", data.Source("two numbers", (layout,), obtain="Write it."))
    (tmp_path / "pair").mkdir()
    return tmp_path


def test_verified(root: Path) -> None:
    (root / "pair/values.txt").write_bytes(CONTENT)
    finding = data.check_one("pair", root)
    assert finding == data.Finding("pair", "verified", str(root / "pair"), "two numbers.")


def test_a_file_that_differs_but_can_be_read_is_unverified(root: Path) -> None:
    (root / "pair/values.txt").write_bytes(CONTENT + b" ")
    finding = data.check_one("pair", root)
    assert finding.status == "unverified"
    assert "values.txt" in finding.detail
    assert data.load("pair", root).num_classes == 2


def test_a_file_without_known_checksum_is_unverified(root: Path) -> None:
    layout = data.Layout(_read, {"values.txt": ""}, ("pair",))
    data.register("pair", data.Source("two numbers", (layout,)), force=True)
    (root / "pair/values.txt").write_bytes(CONTENT)
    assert data.check_one("pair", root).status == "unverified"


def test_damaged(root: Path) -> None:
    (root / "pair/values.txt").write_bytes(b"")
    finding = data.check_one("pair", root)
    assert finding.status == "damaged"
    assert "values.txt should hold two numbers" in finding.detail


def test_missing_says_where_to_put_it(root: Path) -> None:
    finding = data.check_one("pair", root)
    assert (finding.status, finding.where) == ("missing", str(root / "pair"))
    assert "Write it." in finding.detail


def test_all_sets_are_listed_in_order(root: Path) -> None:
    findings = data.check(root)
    assert [finding.name for finding in findings] == list(data.names())
    assert [finding.status for finding in findings] == ["embedded"] + ["missing"] * 10
    assert findings[1].where == str(root / "mnist/raw")
    assert "`unstale data fetch mnist`" in findings[1].detail
