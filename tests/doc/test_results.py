"""Committed results say where they are from, and name no path of a machine."""

import json
import re
from pathlib import Path

import pytest
from doc_pages import ROOT

# From before `unstale.run_folder.provenance`: they say less, or elsewhere. No line is added.
OLDER = set((Path(__file__).parent / "older_results.txt").read_text().split())
FOLDERS = ("benchmarks", "examples", "experiments")
RECORDS = {".json", ".jsonl"}
TEXT = {".json", ".jsonl", ".txt", ".md"}
COMMIT = re.compile(r"[0-9a-f]{7,40}")
MACHINE = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|mnt|srv|Users|var|data)/")


def results():
    """The result files of the repository, as paths from its root."""
    found = [p for top in FOLDERS for p in (ROOT / top).glob("**/results/**/*") if p.is_file()]
    return sorted(path.relative_to(ROOT) for path in found)


def origin(path):
    """What a result file says of its origin, in itself or in the run folder around it."""
    for folder in path.parents:
        if (folder / "environment.json").is_file():
            environment = json.loads((folder / "environment.json").read_text())
            seeds = json.loads((folder / "summary.json").read_text())["seeds"]
            return {"hardware": environment.get("cpu"), "seeds": seeds, **environment}
    if path.suffix == ".jsonl":
        return json.loads(path.read_text().partition("\n")[0])
    found = json.loads(path.read_text())
    return found.get("about", found) if isinstance(found, dict) else {}


def faults(about):
    """What is missing in a result's origin."""
    about = {"hardware": about.get("machine"), **about}  # as it was called before
    missing = [key for key in ("command", "hardware") if not about.get(key)]
    if not isinstance(about.get("seeds"), list):
        missing.append("seeds")
    if not COMMIT.fullmatch(str(about.get("commit"))):
        missing.append("a clean commit")
    return missing


def newer():
    """The records that have to say where they are from."""
    return [p for p in results() if p.suffix in RECORDS and p.as_posix() not in OLDER]


def test_results_carry_their_origin():
    found = {str(path): faults(origin(ROOT / path)) for path in newer()}
    assert {path: missing for path, missing in found.items() if missing} == {}


@pytest.mark.parametrize("path", [p for p in results() if p.suffix in TEXT], ids=str)
def test_no_machine_is_named(path):
    assert MACHINE.findall((ROOT / path).read_text(encoding="utf-8")) == []


def test_the_list_of_older_results_only_shrinks():
    known = {path.as_posix() for path in results()}
    assert sorted(OLDER - known) == []
    whole = {name for name in OLDER if faults(origin(ROOT / name)) == []}
    assert sorted(whole) == []


def test_faults_are_found(tmp_path):
    whole = {"command": "x", "commit": "0123abc", "seeds": [], "hardware": {"cpu": "y"}}
    assert faults(whole) == []
    for commit in ("0123abc-dirty", "tuning", None):
        assert faults({**whole, "commit": commit}) == ["a clean commit"]
    assert faults({}) == ["command", "hardware", "seeds", "a clean commit"]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"about": whole, "rows": []}))
    assert origin(path) == whole
    path.write_text("[1]")
    assert origin(path) == {}
    assert MACHINE.search("--data /home/me/sets")
    assert not MACHINE.search("experiments/data/x and 1/2")
