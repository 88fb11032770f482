import json

import pytest
from rich.console import Console

from unstale.cli.watch_view import view
from unstale.run_folder import Lines, Round, RunFolder
from unstale.watch import WatchedFolder


def begin(folder, methods=("unweighted", "convert"), seeds=(0,), rounds=200):
    folder.path.mkdir()
    config = {
        "name": "x",
        "title": "A [bold] title",
        "rounds": rounds,
        "seeds": list(seeds),
        "methods": [{"label": label} for label in methods],
    }
    folder.config_path.write_text(json.dumps(config))


def add(folder, label, seed, *rounds):
    path = folder.lines_path(label, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    for one in rounds:
        Lines(path).append(one)


def shown(folder, width=80, height=0):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(view([WatchedFolder(folder.path).look()], height))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_finished_run_is_shown_and_left(unstale, small, tmp_path):
    assert unstale("run", "quickstart", *small, "--out", "a").code == 0
    result = unstale("watch", "a")  # no --once: it ends by itself
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("a: ended; 6 of 6 rounds, 100%\n")
    result = unstale("watch", "a", "--once")
    assert "no_delay" in result.out
    assert "3/3" in result.out


def test_json_of_one_and_of_several(unstale, small):
    assert unstale("run", "quickstart", *small, "--out", "a").code == 0
    one = json.loads(unstale("watch", "a", "--json").out)
    assert (one["run"], one["status"], one["rounds"]) == ("a", "ended", 6)
    assert [part["label"] for part in one["parts"]] == ["no_delay", "unweighted"]
    result = unstale("watch", "a", "b", "--once", "--json")
    both = json.loads(result.out)["runs"]
    assert [state["status"] for state in both] == ["ended", "waiting"]


def test_once_does_not_wait_for_a_folder(unstale, tmp_path):
    result = unstale("watch", "nowhere", "--once")
    assert result.code == 0
    assert result.out == "nowhere: no such folder yet; waiting for a run to begin\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--once", "--page"], "--once"),
        (["--port", "8080"], "--page"),
        (["--page", "--port", "70000"], "--port"),
    ],
)
def test_options_that_do_not_go_together(unstale, options, said):
    result = unstale("watch", "a", *options)
    assert result.code == 2
    assert said in result.err


def test_the_table_fits_into_80_characters(tmp_path):
    folder = RunFolder(tmp_path / "run")
    begin(folder)
    line = Round(150, accuracy=0.5, affected_accuracy=0.25, arrivals=1812, stale=12)
    add(folder, "unweighted", 0, Round(200, accuracy=0.75, arrivals=1900, refused={"x": 3}))
    add(folder, "convert", 0, Round(1, conversions=12), line)
    text = shown(folder)
    assert text[0] == "A [bold] title"
    rows = {row.split()[0]: row.split()[1:] for row in text if row.startswith(("unw", "conv"))}
    assert rows["unweighted"] == ["0", "200/200", "0.750", "1900", "3", "done"]
    assert rows["convert"][:7] == ["0", "150/200", "0.500", "0.250", "1812", "12", "12"]
    assert max(map(len, text)) <= 80
    assert not [row for row in text if "stood" in row], "what is always 0 has no column"


def test_a_small_terminal_shows_what_is_under_way(tmp_path):
    folder = RunFolder(tmp_path / "run")
    begin(folder, seeds=range(20), rounds=4)
    for seed in range(7):
        add(folder, "unweighted", seed, Round(4))
        add(folder, "convert", seed, Round(4))
    add(folder, "unweighted", 7, Round(2))
    text = shown(folder, height=16)
    assert len(text) <= 16
    assert any(row.startswith("unweighted") and "2/4" in row for row in text)
    assert any("done and" in row and row.endswith("waiting") for row in text)
    whole = shown(folder)
    assert sum(row.startswith(("unweighted", "convert")) for row in whole) == 40
