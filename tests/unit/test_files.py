"""Files that are written whole or not at all."""

import hashlib
import json
import math
import os
import stat
import threading

import pytest

from unstale import files


def test_writes_replaces_and_returns_the_digest(tmp_path):
    path = tmp_path / "new" / "folder" / "a.bin"
    for content in (b"first", b"", b"x" * 3_000_000):
        digest = files.write_whole(path, content)
        assert path.read_bytes() == content
        assert digest == hashlib.sha256(content).hexdigest() == files.sha256_of(path)
    assert [p.name for p in path.parent.iterdir()] == ["a.bin"]


@pytest.mark.parametrize("broken", ["write", "fsync", "replace"])
def test_a_failure_at_any_point_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch, broken):
    path = tmp_path / "a.bin"
    files.write_whole(path, b"old")

    def fail(*_args, **_more):
        raise OSError(28, "No space left on device")

    class Full:
        def __init__(self, handle, mode):
            self.handle = handle

        def __enter__(self):
            return self

        def __exit__(self, *_):
            os.close(self.handle)

        write = fail

    with monkeypatch.context() as patch:
        if broken == "write":
            patch.setattr(files.os, "fdopen", Full)
        else:
            patch.setattr(files.os, broken, fail)
        with pytest.raises(OSError, match="No space"):
            files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_the_content_is_on_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(files.os, "fsync", lambda h: (order.append("fsync"), fsync(h)))
    monkeypatch.setattr(files.os, "replace", lambda a, b: (order.append("rename"), replace(a, b)))
    files.write_whole(tmp_path / "a.bin", b"x")
    assert order == ["fsync", "rename", "fsync"]  # the file, its name, the folder


def test_others_may_read_as_the_umask_says_and_the_umask_is_left_alone(tmp_path, monkeypatch):
    before = os.umask(0o027)
    # To read the umask is to set it, for all threads: nobody may.
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask is not ours"))
    try:
        files.write_whole(tmp_path / "a.bin", b"x")
    finally:
        monkeypatch.undo()
        assert os.umask(before) == 0o027
    assert stat.S_IMODE((tmp_path / "a.bin").stat().st_mode) == 0o640


def test_threads_that_write_the_same_file_leave_one_whole_content(tmp_path):
    path = tmp_path / "a.bin"
    contents = [bytes([65 + i]) * 100_000 for i in range(6)]
    threads = [threading.Thread(target=files.write_whole, args=(path, c)) for c in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert len(list(tmp_path.iterdir())) == 1


def test_json_is_readable_exact_and_strict(tmp_path):
    path = tmp_path / "a.json"
    value = {"τ": [0.1, 1e-300, 10**30, None, True], "nested": {"a": "Δ"}}
    files.write_json(path, value)
    assert json.loads(path.read_text(encoding="utf-8")) == value
    assert "τ" in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(path, {"loss": math.nan})
    assert json.loads(path.read_text(encoding="utf-8")) == value


def test_only_temporaries_are_removed(tmp_path):
    for name in (".a.json.0123.tmp", "a.json", "b.tmp", ".hidden"):
        (tmp_path / name).write_text("x")
    files.remove_temporaries(tmp_path)
    files.remove_temporaries(tmp_path / "not there")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".hidden", "a.json", "b.tmp"]
