import io
from pathlib import Path

import pytest
from rich.console import Console

from unstale.cli import progress as module
from unstale.cli.progress import LiveProgress
from unstale.experiment import load_experiment
from unstale.run_folder import Round
from unstale.run_folder.schema import OtherRecipe

CONFIG = load_experiment(
    "quickstart", seeds=[0, 1], overrides=["rounds=4", 'methods=["no_delay", "weighted"]']
)


def record(round, accuracy=0.5, refused=None):
    return Round(
        round,
        accuracy=accuracy,
        affected_accuracy=None if accuracy is None else 0.25,
        stale=3,
        refused=refused or {},
    )


def show(terminal, records, monkeypatch=None):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with LiveProgress(console) as progress:
        progress.begin(CONFIG, Path("runs/x"))
        for label, seed, line in records:
            progress.advance(label, seed, line)
    return out.getvalue()


def test_plain_lines_where_it_is_no_terminal():
    text = show(False, [("no_delay", 0, record(r)) for r in range(1, 5)])
    assert text.splitlines() == [
        "Slow clients that hold the fives → runs/x",
        "no_delay seed 0 round 1/4 accuracy 0.500 affected 0.250",
        "no_delay seed 0 round 4/4 accuracy 0.500 affected 0.250",  # the last one always
    ]
    assert "\x1b" not in text


def test_plain_lines_come_now_and_then(monkeypatch):
    clock = iter(range(100, 200, 3))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    text = show(False, [("no_delay", 0, record(r)) for r in (1, 2, 3)])
    assert [line.split()[4] for line in text.splitlines()[1:]] == ["1/4", "3/4"]


def test_a_round_without_evaluation_shows_the_last_known_figures():
    text = show(False, [("no_delay", 0, record(3)), ("no_delay", 0, record(4, accuracy=None))])
    assert text.splitlines()[-1] == "no_delay seed 0 round 4/4 accuracy 0.500 affected 0.250"


def test_nothing_is_known_yet():
    text = show(False, [("no_delay", 0, record(1, accuracy=None))])
    assert "round 1/4" in text


def test_a_table_in_a_terminal():
    text = show(
        True,
        [("no_delay", 0, record(1)), ("no_delay", 0, record(2, None, {"norm": 2, "dtype": 5}))],
    )
    last = text[text.rindex("method") :]
    assert "waiting" in last  # weighted has not begun
    assert "2/4" in last
    assert "0.500" in last
    assert "7" in last.split("2/4")[1].splitlines()[0]  # refusals of all reasons
    assert "quickstart" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_an_error_before_it_began_is_not_hidden(terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with pytest.raises(KeyError), LiveProgress(console):
        raise KeyError


@pytest.mark.parametrize("terminal", [True, False])
def test_a_run_that_tunes_begins_twice(terminal):
    tries = load_experiment("quickstart", overrides=["rounds=4", 'methods=["memory"]'], seeds=[0])
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with LiveProgress(console) as progress:
        progress.begin(tries, Path("runs/x/tuning"))
        for r in range(1, 5):
            progress.advance("memory", 0, record(r))
        progress.begin(CONFIG, Path("runs/x"))
        progress.advance("weighted", 1, record(1))
    text = out.getvalue()
    assert "→ runs/x/tuning\n" in text
    assert "→ runs/x\n" in text
    assert "4/4" in text
    if terminal:
        last = text[text.rindex("method") :]
        assert "memory" not in last
        assert "1/4" in last


@pytest.mark.parametrize("terminal", [False, True])
def test_another_recipe_is_said_at_once(terminal):
    found = OtherRecipe("client-7", "slower", 0.9)
    lines = [("weighted", 0, record(1)), ("weighted", 0, Round(2, other_recipes=(found,)))]
    text = " ".join(show(terminal, lines).split())
    assert text.count("WARNING: weighted seed 0 round 2: A client should train by") == 1
    assert "client-7 look like training that goes about a third as far" in text
