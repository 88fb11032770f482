"""What would surprise on another operating system, as far as it shows on this one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import unstale
from unstale.errors import ConfigError
from unstale.experiment import side_by_side
from unstale.experiment.method_config import checked_label
from unstale.run_folder import Lines, Round

SRC = Path(unstale.__file__).parent
# Modules of Python that Windows does not have.
UNIX_ONLY = ("fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "syslog", "posix")

# Imports every module, and refuses modules of Unix to ours; other libraries know where they are.
PROGRAM = """
import builtins, importlib, pkgutil, sys
missing = set(sys.argv[1].split(","))
original = builtins.__import__

def refusing(name, globals=None, locals=None, fromlist=(), level=0):
    asker = (globals or {}).get("__name__", "")
    if level == 0 and name.partition(".")[0] in missing and asker.partition(".")[0] == "unstale":
        raise ImportError(f"{asker} imports {name}, which Windows does not have")
    return original(name, globals, locals, fromlist, level)

builtins.__import__ = refusing
import unstale
names = [m.name for m in pkgutil.walk_packages(unstale.__path__, "unstale.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def imported(*missing):
    """Import everything in a process that lacks some modules."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, ",".join(missing)],
        env={**os.environ, "PYTHONPATH": str(SRC.parent)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_every_module_is_imported_without_modules_of_unix():
    pytest.importorskip("flwr")
    found = imported(*UNIX_ONLY)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 300
    refused = imported("json")
    assert "imports json, which Windows does not have" in refused.stderr


@pytest.mark.parametrize("label", ["con", "NUL", "aux.txt", "com1", "LPT9.old", "convert."])
def test_labels_are_folders_on_windows_too(label):
    with pytest.raises(ConfigError, match="label"):
        checked_label(label, "label")


@pytest.mark.parametrize("label", ["convert", "console", "a.b", "com", "null", "x", "A+b=1"])
def test_other_labels_are_fine(label):
    assert checked_label(label, "label") == label


def test_lines_end_alike_everywhere(tmp_path, monkeypatch):
    """As on Windows, where text files have another end of line unless they are told."""
    opened = Path.open

    def as_on_windows(path, mode="r", *more, **settings):
        ends = {} if "b" in mode else {"newline": "\r\n"}
        return opened(path, mode, *more, **{**ends, **settings})

    lines = Lines(tmp_path / "seed-0.jsonl")
    round = Round(1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", as_on_windows)
        lines.append(round)
    assert lines.read() == [round]
    assert b"\r" not in (tmp_path / "seed-0.jsonl").read_bytes()


def test_workers_start_where_signals_cannot_wait(monkeypatch):
    monkeypatch.setattr(side_by_side, "_SIGNALS_CAN_WAIT", False)
    monkeypatch.delattr(signal, "pthread_sigmask")
    with side_by_side._ctrl_c_later():
        pass
