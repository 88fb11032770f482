"""Where results come from, in repositories made for the test."""

import json
import subprocess
import sys

import pytest
import torch

from unstale.errors import RunError
from unstale.run_folder import provenance as module
from unstale.run_folder.provenance import (
    commit,
    hardware,
    provenance,
    public_command,
    require_clean,
    write_result,
)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository that holds a copy of the module, which believes that it runs from there."""
    monkeypatch.delenv("COMMIT", raising=False)
    root = tmp_path / "repository"
    copy = root / "src" / "unstale" / "run_folder" / "provenance.py"
    copy.parent.mkdir(parents=True)
    copy.write_text("")
    (root / "pyproject.toml").write_text("")
    (root / ".gitignore").write_text("runs/\n")
    monkeypatch.setattr(module, "_HERE", copy)
    git(root, "init", "-q")
    commit_all(root)
    return root


def git(root, *arguments):
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True)


def commit_all(root):
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "x")


def test_a_clean_commit_is_named_as_it_is(repository):
    assert commit().isalnum()
    assert len(commit()) == 12


def test_a_changed_source_and_a_new_one_are_dirty(repository):
    source = repository / "src" / "unstale" / "new.py"
    source.write_text("1")
    assert commit().endswith("-dirty")
    commit_all(repository)
    assert not commit().endswith("-dirty")
    source.write_text("2")
    assert commit().endswith("-dirty")


def test_pages_and_earlier_results_do_not_make_a_tree_dirty(repository):
    for name in ("README.md", "experiments/x/README.md", "experiments/x/results/a.json"):
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert not commit().endswith("-dirty")


def test_no_commit_without_git(repository, monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert commit() is None


def test_no_commit_of_somebody_elses_repository(repository):
    """Installed below a repository that does not track us, its commit says nothing."""
    git(repository, "rm", "-q", "--cached", "src/unstale/run_folder/provenance.py")
    git(repository, "commit", "-q", "-m", "not ours")
    assert commit() is None


def test_the_environment_names_the_commit_of_a_copy(repository, monkeypatch):
    (repository / "src" / "new.py").write_text("")
    monkeypatch.setenv("COMMIT", "0123abc")
    assert commit() == "0123abc"
    require_clean(repository / "results" / "a.json")


def test_a_dirty_tree_is_refused_for_what_is_committed_only(repository, tmp_path):
    inside = repository / "experiments" / "x" / "results" / "a.json"
    require_clean(inside)
    (repository / "src" / "new.py").write_text("")
    with pytest.raises(RunError, match=r"-dirty\. Changed: src/new\.py\. Commit first"):
        require_clean(inside)
    require_clean(None)
    require_clean(tmp_path / "scratch.json")
    require_clean(repository / "runs" / "quickstart-001")


def test_an_unknown_commit_is_refused(repository, monkeypatch):
    monkeypatch.setattr(module, "_git", lambda *_: "")
    with pytest.raises(RunError, match="no commit"):
        require_clean(repository / "a.json")


def test_results_carry_where_they_are_from(repository, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["experiments/x/study.py", "--data", "/some/where"])
    about = provenance([10, 11])
    out = repository / "experiments" / "x" / "results" / "a.json"
    write_result(out, about, {"rows": [1]})
    found = json.loads(out.read_text())
    assert found["rows"] == [1]
    assert found["about"] == {
        "command": "python experiments/x/study.py --data DATA",
        "commit": commit(),
        "seeds": [10, 11],
        "hardware": hardware(),
    }


def test_a_result_begun_in_a_dirty_tree_stays_refused(repository):
    (repository / "src" / "new.py").write_text("")
    about = provenance([0])
    commit_all(repository)
    with pytest.raises(RunError, match="-dirty"):
        write_result(repository / "a.json", about, {})


def test_hardware_of_this_machine():
    found = hardware(torch.device("cpu"))
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["cores"] >= 1
    assert found["cpu"]
    assert found["gpu"] is None


def test_commands_have_no_paths_of_the_machine(repository, monkeypatch):
    monkeypatch.chdir(repository)
    inside = repository / "experiments" / "my.toml"
    words = ["unstale", "run", str(inside), "/a/other.toml", "--data", "/home/me/sets"]
    words += ["--out=../runs", "--set", "latency.path=/home/me/t.csv", "--set", "local.lr=1/2"]
    assert public_command([*words, "results/a.json"]) == (
        "unstale run experiments/my.toml other.toml --data DATA --out=OUT "
        "--set latency.path=PATH --set local.lr=1/2 results/a.json"
    )
