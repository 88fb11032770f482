"""Lines that are followed while somebody writes them."""

import pytest

from unstale.errors import RunError
from unstale.run_folder import Lines, Round
from unstale.run_folder.lines import compress
from unstale.run_folder.tail import Tail


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture
def lines(tmp_path):
    return Lines(tmp_path / "seed-0.jsonl")


def add(lines, *rounds):
    for t in rounds:
        lines.append(Round(t, accuracy=t / 100))


def numbers(rounds):
    return [one.number for one in rounds]


def test_only_what_is_new_is_read(lines):
    tail = Tail(lines.path)
    assert (tail.read(), tail.changed) == ([], None)
    add(lines, 1, 2)
    assert numbers(tail.read()) == [1, 2]
    assert tail.changed == lines.path.stat().st_mtime
    mark = tail.mark
    assert tail.read() == []
    assert tail.mark == mark
    add(lines, 3)
    assert numbers(tail.read()) == [3]
    assert tail.mark != mark
    assert {t: one.accuracy for t, one in tail.rounds.items()} == {1: 0.01, 2: 0.02, 3: 0.03}


def test_a_half_written_line_is_left_for_later(lines):
    add(lines, 1, 2)
    content = lines.path.read_bytes()
    tail = Tail(lines.path)
    for cut in range(len(content) // 2 + 1, len(content)):
        lines.path.write_bytes(content[:cut])
        assert numbers(Tail(lines.path).read()) == [1]
    lines.path.write_bytes(content[:-20])
    assert numbers(tail.read()) == [1]
    with lines.path.open("ab") as file:
        file.write(content[-20:])
    assert numbers(tail.read()) == [2]


def test_a_file_that_a_resume_cut_back_is_read_anew(lines):
    add(lines, 1, 2, 3, 4)
    tail = Tail(lines.path)
    tail.read()
    lines.cut(2)  # replaces the file
    assert numbers(tail.read()) == [1, 2]
    assert list(tail.rounds) == [1, 2]
    add(lines, 3)
    assert numbers(tail.read()) == [3]


def test_a_file_that_was_cut_and_has_grown_beyond_is_read_anew(lines):
    add(lines, 1, 2, 3)
    tail = Tail(lines.path)
    tail.read()
    lines.cut(1)
    add(lines, 2, 3, 4, 5)
    assert numbers(tail.read()) == [1, 2, 3, 4, 5]


def test_a_file_that_is_gone_is_forgotten(lines):
    add(lines, 1)
    tail = Tail(lines.path)
    tail.read()
    lines.path.unlink()
    assert tail.read() == []
    assert (tail.rounds, tail.changed) == ({}, None)


def test_the_compressed_lines_of_a_kept_run(lines):
    add(lines, 1, 2)
    kept = lines.path.with_name("seed-0.jsonl.gz")
    kept.write_bytes(compress(lines.path.read_bytes()))
    lines.path.unlink()
    tail = Tail(lines.path)
    assert numbers(tail.read()) == [1, 2]
    assert tail.read() == []


@pytest.mark.parametrize(
    ("line", "said"), [(b"\0\0\n", "is damaged"), (b'{"schema": 1}\n', "cannot be read")]
)
def test_a_whole_line_that_is_none_is_an_error_with_its_place(lines, line, said):
    add(lines, 1)
    with lines.path.open("ab") as file:
        file.write(line)
    with pytest.raises(RunError, match=rf"Line 2 of .*seed-0.jsonl {said}"):
        Tail(lines.path).read()
