"""A kept run: compressed, the same bytes for the same run, and read as the run itself."""

import gzip
import json

import pytest
from fake_run import write_fake_run

from unstale.errors import RunError
from unstale.report import read_run, write_report
from unstale.run_folder import RunFolder, keep, keep_run, summarise
from unstale.run_folder.lines import Lines, compress, content_of

SMALL = {"rounds": 6, "seeds": (0, 1), "methods": ("no_delay", "unweighted"), "clients": 10}


@pytest.fixture
def run(tmp_path):
    return RunFolder(write_fake_run(tmp_path / "run", **SMALL))


def files_of(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def change(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_kept_run_has_compressed_lines_and_no_more_than_needed(run, tmp_path):
    (run.path / "checkpoints").mkdir()
    (run.path / "checkpoints" / "big").write_text("x")
    kept = files_of(keep_run(run, tmp_path / "kept"))
    lines = {f"rounds/{m}/seed-{s}.jsonl.gz" for m in SMALL["methods"] for s in (0, 1)}
    others = {"config.json", "environment.json", "summary.json", "timing.json"}
    assert set(kept) == lines | others | {f"scenario/seed-{s}.json" for s in (0, 1)}
    for name in lines:
        assert gzip.decompress(kept[name]) == (run.path / name.removesuffix(".gz")).read_bytes()


def test_the_record_of_a_tuning_is_kept_without_its_tries(run, tmp_path):
    environment = {"command": "unstale run my.toml --out /home/me/run", "commit": "abc"}
    record = {"seeds": [0], "environment": environment, "config": {"key": "/home/me/trace.csv"}}
    run.tuning_path.write_text(json.dumps(record))
    (run.tries.path / "rounds").mkdir(parents=True)
    (run.tries.path / "rounds" / "big").write_text("x")
    kept = files_of(keep_run(run, tmp_path / "kept"))
    assert json.loads(kept["tuning.json"]) == {
        "seeds": [0],
        "environment": {"command": "unstale run my.toml --out OUT", "commit": "abc"},
        "config": {"key": "trace.csv"},
    }
    assert not [name for name in kept if name.startswith("tuning/")]


def test_bytes_depend_on_the_run_alone(run, tmp_path, monkeypatch):
    first = files_of(keep_run(run, tmp_path / "first"))
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert files_of(keep_run(run, tmp_path / "second")) == first
    again = keep_run(RunFolder(tmp_path / "first"), tmp_path / "third")
    assert files_of(again) == first


def test_it_is_read_as_the_run_itself(run, tmp_path):
    kept = RunFolder(keep_run(run, tmp_path / "kept"))
    before, after = read_run(run.path), read_run(kept.path)
    assert after.rounds == before.rounds
    assert all(len(rounds) == 6 for seeds in after.rounds.values() for rounds in seeds.values())
    assert summarise(kept) == summarise(run)
    assert write_report(kept.path).is_file()


def test_plain_lines_count_where_both_are_there(run):
    path = run.lines_path("unweighted", 0)
    path.with_name(path.name + ".gz").write_bytes(b"not read")
    assert len(Lines(path).read()) == 6
    assert len(read_run(run.path).rounds["unweighted"][0]) == 6


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:20], lambda b: b"no gzip"])
def test_damaged_lines_are_named(run, tmp_path, damage):
    kept = keep_run(run, tmp_path / "kept")
    path = kept / "rounds" / "unweighted" / "seed-0.jsonl.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunError, match=r"seed-0\.jsonl\.gz should be lines in gzip's form"):
        read_run(kept)
    with pytest.raises(RunError, match="damaged"):
        Lines(path.with_suffix("")).read()


def test_no_path_of_the_machine_is_kept(run, tmp_path):
    command = "unstale run /home/me/my.toml --data /home/me/sets"
    change(run.path / "environment.json", command=command)
    change(run.config_path, latency={"kind": "trace", "path": "/home/me/trace.csv"})
    kept = keep_run(run, tmp_path / "kept")
    found = json.loads((kept / "environment.json").read_text())
    assert found["command"] == "unstale run my.toml --data DATA"
    assert json.loads((kept / "config.json").read_text())["latency"]["path"] == "trace.csv"
    assert not [name for name, content in files_of(kept).items() if b"/home" in content]


def test_refused(run, tmp_path, monkeypatch):
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("")
    with pytest.raises(RunError, match="holds something already"):
        keep_run(run, full)
    asked = []
    monkeypatch.setattr(keep, "require_clean", lambda out, about: asked.append((out, about)))
    keep_run(run, tmp_path / "kept")
    environment = json.loads((run.path / "environment.json").read_text())
    assert asked == [(tmp_path / "kept", environment)]
    run.summary_path.unlink()
    with pytest.raises(RunError, match="Only a finished run"):
        keep_run(run, tmp_path / "other")


def test_compressed_content_is_told_by_its_name(tmp_path):
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    plain.write_bytes(b"{}\n")
    packed.write_bytes(compress(b"{}\n"))
    assert content_of(plain) == content_of(packed) == b"{}\n"
