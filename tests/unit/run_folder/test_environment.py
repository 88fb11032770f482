import json
import subprocess

import torch

import unstale
from unstale.run_folder import environment


def test_describes_this_machine():
    found = environment.describe_environment(torch.device("cpu"), "unstale run x")
    assert found["unstale"] == unstale.__version__
    assert found["torch"] == torch.__version__
    assert found["command"] == "unstale run x"
    assert found["device"] == "cpu"
    assert found["cores"] >= 1
    assert json.loads(json.dumps(found)) == found


def test_no_commit_without_git(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert environment.commit() is None


def test_no_commit_of_somebody_elses_repository(tmp_path, monkeypatch):
    """Installed below a repository that does not track us, its commit says nothing."""
    copy = tmp_path / "lib" / "environment.py"
    copy.parent.mkdir()
    copy.write_text("")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    monkeypatch.setattr(environment, "__file__", str(copy))
    assert environment.commit() is None
    subprocess.run([*git, "add", "lib"], check=True)
    assert environment.commit()
