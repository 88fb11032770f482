import subprocess
import sys

import pytest

from unstale.errors import RunError
from unstale.run_folder.folder import RunFolder, latest_folder, next_folder
from unstale.run_folder.lines import Lines


def test_numbered_folders(tmp_path):
    assert latest_folder(tmp_path / "nowhere", "x") is None
    assert next_folder(tmp_path / "nowhere", "x").path == tmp_path / "nowhere" / "x-001"
    for name in ("x-001", "x-009", "x-010", "x-1000", "x-y-2000", "x-", "x-12b", "x-²"):
        (tmp_path / name).mkdir()
    (tmp_path / "x-2000").write_text("a file")
    assert latest_folder(tmp_path, "x").path == tmp_path / "x-1000"
    assert next_folder(tmp_path, "x").path == tmp_path / "x-1001"
    assert next_folder(tmp_path, "x-y").path == tmp_path / "x-y-2001"


def test_one_process_at_a_time(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.lock()
    folder.lock()  # what it holds already
    with pytest.raises(RunError, match=r"One process at a time.*run.*--out"):
        RunFolder(tmp_path / "run").lock()
    code = (  # without the package, whose import takes seconds
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: sys.exit(7)"
    )
    attempt = [sys.executable, "-c", code, str(tmp_path / "run" / ".lock")]
    assert subprocess.run(attempt, check=False).returncode == 7
    folder.unlock()
    folder.unlock()  # twice is harmless
    assert subprocess.run(attempt, check=False).returncode == 0
    RunFolder(tmp_path / "run").lock()  # released when the process ended


def test_what_a_folder_holds(tmp_path):
    folder = RunFolder(tmp_path)
    assert not folder.is_run
    assert not folder.is_done
    folder.config_path.write_text("{}")
    folder.summary_path.write_text("{}")
    assert folder.is_run
    assert folder.is_done


def test_unreadable_json(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(RunError, match=r"config.json should be readable JSON"):
        folder.read_json(folder.config_path)
    folder.config_path.write_text('{"rounds": ')
    with pytest.raises(RunError, match=r"config.json should be readable JSON"):
        folder.read_json(folder.config_path)


# --- lines ---------------------------------------------------------------------------------


@pytest.fixture
def lines(tmp_path):
    lines = Lines(tmp_path / "deep" / "a.jsonl")
    lines.cut(0)
    for i in range(4):
        lines.append({"round": i + 1, "text": "é\u2028\x85|", "x": 0.1 + i})
    return lines


def test_lines_come_back_as_they_were(lines):
    assert lines.read() == [
        {"round": i + 1, "text": "é\u2028\x85|", "x": 0.1 + i} for i in range(4)
    ]
    lines.flush()
    assert len(lines.read()) == 4
    assert Lines(lines.path.with_name("none.jsonl")).read() == []


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_last_line_that_was_cut_off_is_left_out(lines, cut):
    content = lines.path.read_bytes()
    lines.path.write_bytes(content[:-cut])
    assert [r["round"] for r in lines.read()] == [1, 2, 3]
    assert [r["round"] for r in lines.cut(9)] == [1, 2, 3]
    lines.append({"round": 4})  # on a line of its own
    assert [r["round"] for r in lines.read()] == [1, 2, 3, 4]


def test_cut_off_within_a_character(lines):
    content = lines.path.read_bytes()
    last = content.rindex("é".encode())
    lines.path.write_bytes(content[: last + 1])
    assert len(lines.read()) == 3


@pytest.mark.parametrize(
    "damage", [b'{"round": 2, "x"', b"\xff\xfe", b"5", b"", b"null", b"\0" * 9]
)
def test_damage_in_the_middle_is_an_error(lines, damage):
    content = lines.path.read_bytes().split(b"\n")
    content[1] = damage
    lines.path.write_bytes(b"\n".join(content))
    with pytest.raises(RunError, match=r"Line 2 of .*a\.jsonl should be a JSON object"):
        lines.read()
    with pytest.raises(RunError):
        lines.cut(1)


def test_cut(lines):
    assert [r["round"] for r in lines.cut(2)] == [1, 2]
    assert [r["round"] for r in lines.read()] == [1, 2]
    assert lines.cut(0) == []
    assert lines.path.read_bytes() == b""
    assert [p.name for p in lines.path.parent.iterdir()] == ["a.jsonl"]


def test_a_cut_goes_by_the_number_of_the_round(lines):
    lines.path.write_text('{"round": 2}\n{"round": 5}\n{"no": 1}\n{"round": 3}\n')
    assert [r["round"] for r in lines.cut(3)] == [2, 3]


def test_a_cut_that_fails_leaves_the_old_lines(lines, monkeypatch):
    before = lines.path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unstale.files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        lines.cut(2)
    assert lines.path.read_bytes() == before


def test_not_a_number_is_never_written(lines):
    with pytest.raises(ValueError, match="not JSON compliant"):
        lines.append({"x": float("nan")})
    assert len(lines.read()) == 4
