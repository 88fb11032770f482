"""States of run folders: of the simulator, of Flower, tuned, quiet, ended."""

import json

import pytest
from fake_run import write_fake_run

from unstale.run_folder import Lines, Round, RunFolder
from unstale.watch import PartState, WatchedFolder
from unstale.watch.state import seconds_left
from unstale.watch.words import state_in_words

CONFIG = {
    "name": "two",
    "title": "Two sites",
    "rounds": 4,
    "seeds": [3, 5],
    "methods": [{"name": "convert", "label": "fit"}, {"name": "memory"}],
}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def begin(folder, config=CONFIG):
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.config_path.write_text(json.dumps(config))


def add(folder, label, seed, *rounds):
    path = folder.lines_path(label, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    for one in rounds:
        Lines(path).append(one)
    return path.stat().st_mtime


def test_a_folder_is_waited_for(folder):
    watched = WatchedFolder(folder.path)
    assert watched.look().status == "waiting"
    assert "no such folder yet" in state_in_words(watched.look())
    folder.path.mkdir()
    assert "no run in it yet" in state_in_words(watched.look())
    folder.config_path.write_text('{"name": "two", "ro')  # half of it
    assert watched.look().status == "waiting"
    begin(folder)
    state = watched.look()
    assert (state.status, state.title, state.age) == ("starting", "Two sites", None)
    assert [(p.label, p.seed, p.rounds, p.planned) for p in state.parts] == [
        ("fit", 3, 0, 4),
        ("memory", 3, 0, 4),
        ("fit", 5, 0, 4),
        ("memory", 5, 0, 4),
    ]
    assert state_in_words(state).endswith("begun, no round is done yet")


def test_what_a_part_has_done(folder):
    begin(folder)
    written = add(
        folder,
        "fit",
        3,
        Round(1, accuracy=0.5, affected_accuracy=0.25, arrivals=4, seconds=1.0),
        Round(2, arrivals=5, stale=2, conversions=2, refused={"too_late": 1}, seconds=3.0),
    )
    state = WatchedFolder(folder.path, clock=lambda: written + 7).look()
    assert state.status == "running"
    assert state.parts[0] == PartState(
        "fit",
        3,
        rounds=2,
        planned=4,
        accuracy=0.5,
        affected_accuracy=0.25,
        arrivals=9,
        stale=2,
        conversions=2,
        refused=1,
        round_seconds=2.0,
        age=pytest.approx(7),
    )
    assert (state.rounds, state.planned) == (2, 16)
    # Two rounds of `fit` and twelve that take as long, one at a time.
    assert state.seconds_left == pytest.approx(28)
    said = state_in_words(state)
    assert said.endswith("2 of 16 rounds, 12%; about 28 s left; last line 7 s ago")


def test_rounds_come_while_it_looks_and_go_when_a_resume_cuts_them(folder):
    begin(folder)
    watched = WatchedFolder(folder.path)
    for t in (1, 2, 3):
        add(folder, "fit", 3, Round(t, arrivals=1))
        assert watched.look().parts[0].rounds == t
    Lines(folder.lines_path("fit", 3)).cut(1)
    part = watched.look().parts[0]
    assert (part.rounds, part.arrivals) == (1, 1)


@pytest.mark.parametrize(("seconds", "quiet_after"), [(0.1, 60), (20, 200)])
def test_a_run_of_which_nothing_comes_is_quiet(folder, seconds, quiet_after):
    begin(folder)
    written = add(folder, "fit", 3, Round(1, seconds=seconds))
    before, after = (
        WatchedFolder(folder.path, clock=lambda age=age: written + age).look()
        for age in (quiet_after - 1, quiet_after + 1)
    )
    assert (before.status, after.status) == ("running", "quiet")
    assert after.seconds_left is None
    assert state_in_words(after).endswith("it may have been stopped")


def test_the_summary_ends_it(folder):
    begin(folder)
    add(folder, "fit", 3, Round(1), Round(2), Round(3), Round(4))
    folder.summary_path.write_text("{}")
    state = WatchedFolder(folder.path).look()
    assert state.status == "ended"
    assert state.seconds_left is None
    assert state.parts[0].is_done


def test_while_it_tunes_its_tries_are_shown(folder):
    begin(folder)
    begin(folder.tries, {**CONFIG, "title": "Tuning: Two sites", "seeds": [9]})
    add(folder.tries, "fit", 9, Round(1))
    watched = WatchedFolder(folder.path)
    state = watched.look()
    assert (state.title, state.rounds, state.status) == ("Tuning: Two sites", 1, "running")
    folder.tries.summary_path.write_text("{}")
    assert watched.look().title == "Two sites"
    assert watched.look().status == "starting"


def test_a_damaged_line_is_said_and_the_rest_is_shown(folder):
    begin(folder)
    add(folder, "fit", 3, Round(1))
    add(folder, "memory", 3, Round(1), Round(2))
    with folder.lines_path("fit", 3).open("a") as file:
        file.write("no JSON\n")
    state = WatchedFolder(folder.path).look()
    assert "Line 2 of" in state.fault
    assert state.parts[1].rounds == 2
    assert "Line 2 of" in state_in_words(state)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"methods": [{"label": "../.."}], "seeds": [0]},
        {"methods": 3},
        {"methods": [1], "seeds": "x", "rounds": None},
        {"rounds": 1e9},
    ],
)
def test_a_strange_config_is_no_crash(folder, config):
    begin(folder, config)
    state = WatchedFolder(folder.path).look()
    assert state.status == "starting"
    assert json.dumps(state.to_json())


def test_a_run_without_end_has_no_time_left(folder):
    begin(folder, {**CONFIG, "rounds": 0})
    add(folder, "fit", 3, Round(7, seconds=2.0))
    state = WatchedFolder(folder.path).look()
    assert (state.rounds, state.planned, state.seconds_left) == (7, 0, None)
    assert "7 rounds; last line" in state_in_words(state)


def test_a_server_on_flower(tmp_path):
    logged_run = pytest.importorskip("logged_run")
    folder = logged_run.write_logged_run(tmp_path / "site", rounds=40, reached=13)
    state = WatchedFolder(folder).look()
    (part,) = state.parts
    assert (part.label, part.rounds, part.planned, part.refused) == ("convert", 13, 40, 1)
    assert state.seconds_left > 27 * 4.5


def test_a_whole_run_in_json(tmp_path):
    folder = write_fake_run(tmp_path / "run", rounds=10, methods=("unweighted", "convert"))
    found = json.loads(json.dumps(WatchedFolder(folder).look().to_json()))
    assert (found["status"], found["rounds"]) == ("ended", found["planned"])
    assert {part["label"] for part in found["parts"]} == {"unweighted", "convert"}
    assert found["parts"][0]["accuracy"] is not None


def test_parts_side_by_side_share_the_time():
    def part(label, seed, rounds, age):
        return PartState(label, seed, rounds, 10, round_seconds=2.0 if rounds else None, age=age)

    alone = [part("a", 0, 5, 0.0), part("a", 1, 0, None)]
    assert seconds_left(alone) == 5 * 2 + 10 * 2
    together = [part("a", 0, 5, 0.0), part("a", 1, 5, 0.0)]
    assert seconds_left(together) == (5 * 2 + 5 * 2) / 2
    assert seconds_left([part("a", 0, 0, None)]) is None
