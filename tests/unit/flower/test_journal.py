"""Accepted updates on disk."""

import pytest
import torch

from unstale.errors import ConfigError, RunError
from unstale.flower.journal import Entry, Journal
from unstale.privacy import Seal
from unstale.updates import Update


def entry(node="7", version=3, **options):
    delta = {"w": torch.randn(2, 3), "b": torch.randn(2, dtype=torch.float64)}
    return Entry(Update(node, version, delta, 40), 4, 9, 10, seconds=1.5, **options)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal")


def test_an_entry_comes_back_bit_by_bit(journal):
    written = entry(node=str(2**64 - 1), metrics={"loss": 0.1, "é": 2.0})
    journal.write(written)
    (found,), damaged = Journal(journal.folder).read()
    assert damaged == []
    assert found.key == written.key == (str(2**64 - 1), 3)
    assert (found.sent, found.due, found.idle_from, found.seconds) == (4, 9, 10, 1.5)
    assert found.metrics == written.metrics
    assert found.update.num_examples == 40
    assert list(found.update.delta) == ["w", "b"]
    for name, tensor in written.update.delta.items():
        assert torch.equal(found.update.delta[name], tensor)
        assert found.update.delta[name].dtype == tensor.dtype


def test_entries_are_read_by_version_and_removed_by_key(journal):
    assert journal.is_empty()
    for version, node in ((10, "1"), (9, "2"), (9, "1")):
        journal.write(entry(node, version))
    assert [e.key for e in journal.read()[0]] == [("1", 9), ("2", 9), ("1", 10)]
    journal.remove([("2", 9), ("5", 5)])
    assert [e.key for e in journal.read()[0]] == [("1", 9), ("1", 10)]
    assert not journal.is_empty()


def test_shared_and_strided_tensors_are_written(journal):
    base = torch.arange(6.0).reshape(2, 3)
    journal.write(Entry(Update("1", 0, {"a": base.T, "b": base}, 1), sent=1))
    (found,), _ = journal.read()
    assert torch.equal(found.update.delta["a"], base.T)


@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "header"])
def test_a_damaged_entry_is_set_aside_and_named(journal, harm):
    journal.write(entry("1", 1))
    journal.write(entry("2", 2))
    path = journal.folder / "0000000001-1.safetensors"
    data = bytearray(path.read_bytes())
    data = {
        "cut": data[:-3],
        "flip": data[:-1] + bytes([data[-1] ^ 1]),
        "empty": b"",
        "header": b"\xff" * 8 + data[8:],
    }[harm]
    path.write_bytes(bytes(data))
    entries, damaged = journal.read()
    assert [e.key for e in entries] == [("2", 2)]
    assert damaged == ["0000000001-1"]
    assert path.with_suffix(".damaged").exists()
    assert journal.read()[1] == []


def test_what_a_crash_left_half_written_is_removed(journal):
    journal.write(entry())
    left = journal.folder / ".0000000003-8.safetensors.abc.tmp"
    left.write_bytes(b"half")
    assert len(journal.read()[0]) == 1
    assert not left.exists()


def test_a_node_that_is_no_number_cannot_name_a_file(journal):
    with pytest.raises(RunError, match="number"):
        journal.write(entry("../../x"))


def test_with_a_key_entries_are_encrypted(journal):
    seal = Seal(bytes(range(32)))
    sealed = Journal(journal.folder, seal)
    written = entry("1", 1)
    sealed.write(written)
    (path,) = journal.folder.iterdir()
    assert path.name == "0000000001-1.sealed"
    content = path.read_bytes()
    assert written.update.delta["w"].numpy().tobytes() not in content
    assert b"num_examples" not in content
    (found,), damaged = sealed.read()
    assert damaged == []
    assert torch.equal(found.update.delta["w"], written.update.delta["w"])
    with pytest.raises(ConfigError, match="since it is encrypted"):
        journal.read()
    assert not journal.is_empty()
    path.write_bytes(content[:-1])
    assert sealed.read() == ([], ["0000000001-1"])


def test_entries_of_before_encryption_are_read_and_removed(journal):
    journal.write(entry("1", 1))
    sealed = Journal(journal.folder, Seal(bytes(32)))
    assert [one.key for one in sealed.read()[0]] == [("1", 1)]
    sealed.remove([("1", 1)])
    assert journal.is_empty()
