import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from unstale.errors import RunError
from unstale.run_folder.folder import RunFolder, latest_folder, next_folder
from unstale.run_folder.lines import Lines
from unstale.run_folder.schema import SCHEMA, Round


def test_numbered_folders(tmp_path):
    assert latest_folder(tmp_path / "nowhere", "x") is None
    assert next_folder(tmp_path / "nowhere", "x").path == tmp_path / "nowhere" / "x-001"
    for name in ("x-001", "x-009", "x-010", "x-1000", "x-y-2000", "x-", "x-12b", "x-²"):
        (tmp_path / name).mkdir()
    (tmp_path / "x-2000").write_text("a file")
    assert latest_folder(tmp_path, "x").path == tmp_path / "x-1000"
    assert next_folder(tmp_path, "x").path == tmp_path / "x-1001"
    assert next_folder(tmp_path, "x-y").path == tmp_path / "x-y-2001"


ATTEMPT = """
import sys
from pathlib import Path
from unstale.errors import RunError
from unstale.run_folder import RunFolder
try:
    folder = RunFolder(Path(sys.argv[1]))
    folder.lock()
except RunError:
    sys.exit(7)
print("locked", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.lock()
    folder.lock()  # what it holds already
    with pytest.raises(RunError, match=r"One process at a time.*run.*--out"):
        RunFolder(tmp_path / "run").lock()
    attempt = [sys.executable, "-c", ATTEMPT, str(tmp_path / "run")]
    assert subprocess.run(attempt, check=False).returncode == 7
    folder.unlock()
    folder.unlock()  # twice is harmless
    assert subprocess.run(attempt, check=False, stdin=subprocess.DEVNULL).returncode == 0
    folder.lock()  # released when the process ended
    folder.unlock()


def test_a_killed_process_leaves_a_file_that_blocks_nobody(tmp_path):
    command = [sys.executable, "-c", ATTEMPT, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(RunError, match="One process at a time"):
            RunFolder(tmp_path / "run").lock()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "run" / ".lock").exists()
    folder = RunFolder(tmp_path / "run")
    folder.lock()
    folder.unlock()


def test_what_one_thread_locked_another_may_unlock(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(folder.lock).result()
    folder.unlock()
    other = RunFolder(tmp_path / "run")
    other.lock()
    other.unlock()


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
        lines.append(round_of(i))
    return lines


def round_of(i):
    return Round(i + 1, loss=0.1 + i, gamma={"é\u2028\x85|": 0.5})


def numbers(found):
    return [line.number for line in found]


def test_lines_come_back_as_they_were(lines):
    assert lines.read() == [round_of(i) for i in range(4)]
    lines.flush()
    assert len(lines.read()) == 4
    assert Lines(lines.path.with_name("none.jsonl")).read() == []


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_last_line_that_was_cut_off_is_left_out(lines, cut):
    content = lines.path.read_bytes()
    lines.path.write_bytes(content[:-cut])
    assert numbers(lines.read()) == [1, 2, 3]
    assert numbers(lines.cut(9)) == [1, 2, 3]
    lines.append(Round(4))  # on a line of its own
    assert numbers(lines.read()) == [1, 2, 3, 4]


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
    said = r"Line 2 of .*a\.jsonl is damaged. It should be a JSON object"
    with pytest.raises(RunError, match=said):
        lines.read()
    with pytest.raises(RunError):
        lines.cut(1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"schema": SCHEMA, "round": 2, "accuracy": "high"}, "accuracy should be a number"),
        ({"schema": SCHEMA, "accuracy": 0.5}, "should have a 'round' number"),
    ],
)
def test_a_line_that_breaks_the_schema_is_an_error(lines, line, said):
    content = lines.path.read_bytes().split(b"\n")
    content[1] = json.dumps(line).encode()
    lines.path.write_bytes(b"\n".join(content))
    with pytest.raises(RunError, match=rf"Line 2 of .*is damaged.*{said}.*use --resume"):
        lines.read()


@pytest.mark.parametrize(("version", "said"), [(1, "version 1"), (None, "a line without one")])
def test_lines_of_another_version_are_no_damage(lines, version, said):
    line = {"round": 1} if version is None else {"schema": version, "round": 1}
    lines.path.write_text(json.dumps(line) + "\n")
    with pytest.raises(RunError, match=rf"Line 1 of .*cannot be read.*Found {said}") as caught:
        lines.read()
    assert "version of Unstale that wrote it" in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_cut(lines):
    before = lines.path.read_bytes()
    assert numbers(lines.cut(2)) == [1, 2]
    assert numbers(lines.read()) == [1, 2]
    assert before.startswith(lines.path.read_bytes())  # what is kept is kept to the byte
    assert lines.cut(0) == []
    assert lines.path.read_bytes() == b""
    assert [p.name for p in lines.path.parent.iterdir()] == ["a.jsonl"]


def test_a_cut_goes_by_the_number_of_the_round(lines):
    lines.cut(0)
    for number in (2, 5, 3):
        lines.append(Round(number))
    assert numbers(lines.cut(3)) == [2, 3]


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
        lines.append(Round(5, loss=float("nan")))
    assert len(lines.read()) == 4
