"""Whatever stops a run, it ends with the numbers of an undisturbed one."""

import logging
import shutil

import pytest

from unstale.errors import RunError
from unstale.experiment import method_run
from unstale.run_folder.lines import Lines
from unstale.server import Server, checkpoint
from unstale.sim import Simulation

PLACES = [(label, seed) for label in ("unweighted", "taylor") for seed in (0, 1)]


def numbers(folder):
    """The summary's bytes, and all lines without their times."""
    records = {
        place: [
            {k: v for k, v in r.to_json().items() if k != "seconds"}
            for r in Lines(folder.lines_path(*place)).read()
        ]
        for place in PLACES
    }
    finals = {
        place: (folder.checkpoints_path(*place) / "final.safetensors").read_bytes()
        for place in PLACES
    }
    return folder.summary_path.read_bytes(), records, finals


_UNDISTURBED = []


@pytest.fixture
def undisturbed(run_tiny):
    if not _UNDISTURBED:
        _UNDISTURBED.append(numbers(run_tiny("undisturbed")))
    return _UNDISTURBED[0]


@pytest.fixture
def stop_and_resume(run_tiny, recorder):
    """Stop a run after some rounds of progress, again and again, and finish it."""

    def run(*stops, checkpoint_seconds=0.0):
        for stop in stops:
            with pytest.raises(KeyboardInterrupt):
                run_tiny("a", progress=recorder(stop), checkpoint_seconds=checkpoint_seconds)
        return run_tiny("a", checkpoint_seconds=checkpoint_seconds)

    return run


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["always", "never"])
@pytest.mark.parametrize("stops", [(1,), (7,), (8,), (3, 5, 13, 14, 28)], ids=str)
def test_stopped_between_rounds(stops, seconds, stop_and_resume, undisturbed):
    assert numbers(stop_and_resume(*stops, checkpoint_seconds=seconds)) == undisturbed


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["always", "never"])
@pytest.mark.parametrize(
    ("part", "call"),
    [
        ("check_out", 10),
        ("submit", 10),
        ("step", 4),
        ("step", 11),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_stopped_within_a_round(part, call, when, seconds, run_tiny, undisturbed, monkeypatch):
    """Clients are asked and updates wait at the server: none of that may be saved."""
    done, calls = getattr(Server, part), 0

    def stopping(self, *args):
        nonlocal calls
        calls += 1
        if calls == call and when == "before":
            raise KeyboardInterrupt
        result = done(self, *args)
        if calls == call:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Server, part, stopping)
        with pytest.raises(KeyboardInterrupt):
            run_tiny("a", checkpoint_seconds=seconds)
    assert numbers(run_tiny("a", checkpoint_seconds=seconds)) == undisturbed


def test_stopped_while_saving(run_tiny, undisturbed, monkeypatch):
    write = checkpoint.write_json
    calls = 0

    def stopping(*args):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return write(*args)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_json", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_tiny("a", checkpoint_seconds=0)
    assert numbers(run_tiny("a")) == undisturbed


@pytest.mark.parametrize(
    "at", [(method_run, "save_tensors"), (shutil, "rmtree")], ids=["final model", "clearing up"]
)
def test_killed_at_the_end_of_a_method(at, run_tiny, undisturbed, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*at, kill)
        with pytest.raises(Killed):
            run_tiny("a", checkpoint_seconds=0)
    rounds = []
    run_round = Simulation.run_round

    def counted(self, **options):
        rounds.append(self.round)
        return run_round(self, **options)

    monkeypatch.setattr(Simulation, "run_round", counted)
    folder = run_tiny("a")
    assert numbers(folder) == undisturbed
    assert len(rounds) <= 28 - 6  # the method that was done, or all but done, is not run anew
    assert len(list(folder.path.glob("checkpoints/*/*/*"))) == 4


def test_a_finished_run_does_nothing_more(run_tiny, undisturbed, recorder, monkeypatch):
    run_tiny("a")

    def refuse(*_, **__):
        raise AssertionError("nothing should be run")

    monkeypatch.setattr(Simulation, "run_round", refuse)
    progress = recorder()
    assert numbers(run_tiny("a", progress=progress)) == undisturbed
    assert len(progress.seen) == 28  # the rounds of the past are shown


def test_progress_is_told_of_earlier_rounds(run_tiny, recorder):
    with pytest.raises(KeyboardInterrupt):
        run_tiny("a", progress=recorder(stop_after=10))
    progress = recorder()
    run_tiny("a", progress=progress)
    seen = [(label, seed, r) for seed in (0, 1) for label in ("unweighted", "taylor")
            for r in range(1, 8)]  # fmt: skip
    assert progress.seen == seen


def test_work_done_is_not_done_again(run_tiny, recorder, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        run_tiny("a", progress=recorder(stop_after=10))
    rounds = []
    run_round = Simulation.run_round

    def counted(self, **options):
        rounds.append(self.round)
        return run_round(self, **options)

    monkeypatch.setattr(Simulation, "run_round", counted)
    run_tiny("a")
    assert rounds == [3, 4, 5, 6, *range(7), *range(7)]


# --- files that were damaged meanwhile ---------------------------------------------------------


@pytest.fixture
def stopped(run_tiny, recorder):
    """A run that stopped in the fifth round of its second method."""
    with pytest.raises(KeyboardInterrupt):
        run_tiny("a", progress=recorder(stop_after=12), checkpoint_seconds=0)
    from unstale.experiment import RunFolder

    return RunFolder


@pytest.fixture
def place(stopped, tmp_path):
    folder = stopped(tmp_path / "a")
    place = folder.checkpoints_path("taylor", 0)
    assert len(list(place.glob("checkpoint-*.json"))) == 2
    return place


def test_damaged_newest_checkpoint(place, run_tiny, undisturbed, caplog):
    newest = max(place.glob("checkpoint-*.json"))
    newest.write_text(newest.read_text()[:100])
    assert numbers(run_tiny("a")) == undisturbed
    assert "Skipped a damaged checkpoint" in caplog.text


@pytest.mark.parametrize("what", ["checkpoint-*.json", "checkpoint-*.safetensors", "versions/*"])
def test_no_sound_checkpoint_left(what, place, run_tiny, undisturbed, caplog):
    damaged = list(place.glob(what))
    assert damaged
    for path in damaged:
        path.write_bytes(b"\0" * path.stat().st_size)
    with caplog.at_level(logging.WARNING):
        assert numbers(run_tiny("a")) == undisturbed
    assert "starts from the beginning" in caplog.text


def test_truncated_last_line(place, run_tiny, undisturbed, tmp_path):
    path = tmp_path / "a" / "rounds" / "taylor" / "seed-0.jsonl"
    with path.open("ab") as file:
        file.write(b'{"round": 6, "accur')
    assert numbers(run_tiny("a")) == undisturbed


@pytest.mark.parametrize("keep", [0, 2])
def test_lost_lines_are_made_again(keep, place, run_tiny, undisturbed, tmp_path):
    path = tmp_path / "a" / "rounds" / "taylor" / "seed-0.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:keep]))
    assert numbers(run_tiny("a")) == undisturbed


@pytest.mark.parametrize("label", ["taylor", "unweighted"])  # under way, and done
def test_damaged_line_then_the_advice(label, place, run_tiny, undisturbed, tmp_path):
    path = tmp_path / "a" / "rounds" / label / "seed-0.jsonl"
    content = path.read_bytes().split(b"\n")
    content[2] = content[2][:30]
    path.write_bytes(b"\n".join(content))
    with pytest.raises(RunError, match=r"Line 3 .*Remove the file and use --resume"):
        run_tiny("a")
    path.unlink()
    assert numbers(run_tiny("a")) == undisturbed


def test_leftover_temporaries_do_no_harm(place, run_tiny, undisturbed):
    (place / ".checkpoint-0000000009.json.abc.tmp").write_text("half")
    (place / "versions" / ".x.tmp").write_text("half")
    assert numbers(run_tiny("a")) == undisturbed


def test_a_full_disk_loses_nothing(run_tiny, undisturbed, monkeypatch):
    append, calls = Lines.append, 0

    def full(self, record):
        nonlocal calls
        calls += 1
        if calls == 11:
            with self.path.open("ab") as file:
                file.write(b'{"method": "tay')
            raise OSError(28, "No space left on device", str(self.path))
        return append(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(Lines, "append", full)
        with pytest.raises(OSError, match="No space"):
            run_tiny("a", checkpoint_seconds=0)
    assert numbers(run_tiny("a")) == undisturbed
