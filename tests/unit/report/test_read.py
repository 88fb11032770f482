import json
import math

import pytest

from unstale.errors import RunError
from unstale.report import read_run
from unstale.run_folder.schema import SCHEMA

SMALL = {"rounds": 6, "seeds": (0,), "methods": ("no_delay", "unweighted"), "clients": 10}


def lines_of(folder, label="unweighted", seed=0):
    return folder / "rounds" / label / f"seed-{seed}.jsonl"


# How a line of the known version begins.
VERSION = f'{{"schema": {SCHEMA}, '


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def replace_line(path, position, line):
    lines = path.read_text().splitlines()
    lines[position - 1] = line
    path.write_text("\n".join(lines) + "\n")


def test_a_finished_run(finished):
    run = read_run(finished)
    assert run.finished
    assert [m.label for m in run.methods] == [
        "no_delay",
        "unweighted",
        "weighted",
        "first_order",
        "convert",
    ]
    assert [m.label for m in run.methods if m.is_oracle] == ["no_delay"]
    assert run.seeds == (0, 1, 2)
    assert run.last_round == 100
    assert run.target == 0.8
    assert run.seconds["convert"] == 34.2
    assert all(len(rounds) == 100 for seeds in run.rounds.values() for rounds in seeds.values())
    line = run.rounds["convert"][1][59]
    assert line.number == 60
    assert sum(line.staleness.values()) == line.arrivals == 10
    assert set(line.oracle) == {
        *("stale_cosine", "compensated_cosine", "stale_l1", "compensated_l1")
    }
    slow = [client for client in run.scenarios[2].clients if client.slow]
    assert [client.latency for client in slow] == [40.0] * 3
    assert slow[0].examples == sum(slow[0].histogram)


def test_an_unfinished_run_is_read_as_far_as_it_went(fake_run):
    folder = fake_run(
        finished=False, rounds=8, reached={("convert", 1): 3, ("weighted", 2): 0}, clients=10
    )
    run = read_run(folder)
    assert not run.finished
    assert len(run.rounds["convert"][1]) == 3
    assert 2 not in run.rounds["weighted"]
    assert run.target == 0.8  # from the config, as there is no summary
    assert set(run.counted("convert")) == {0, 2}
    assert run.reached("convert") == 8


def test_a_run_that_has_only_a_config(tmp_path):
    (tmp_path / "config.json").write_text('{"methods": [{"name": "unweighted"}], "seeds": [3]}')
    run = read_run(tmp_path)
    assert not run.finished
    assert run.methods[0].label == "unweighted"
    assert (run.last_round, run.rounds, run.scenario) == (0, {}, None)


@pytest.mark.parametrize("ending", ["", "\n"])
def test_a_last_line_that_was_cut_off_is_left_out(fake_run, caplog, ending):
    path = lines_of(fake_run(**SMALL))
    whole = path.read_text()
    path.write_text(whole[:-40] + ending)
    run = read_run(path.parents[2])
    assert [r.number for r in run.rounds["unweighted"][0]] == [1, 2, 3, 4, 5]
    assert "line 6 was cut off" in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        '{"round": 3, "accur',
        "[1, 2]",
        "7",
        '{"version": 3}',
        '{"round": -3}',
        '{"round": 2.5}',
        '{"round": "3"}',
        '{"round": 3, "accuracy": "high"}',
        '{"round": 3, "arrivals": true}',
        '{"round": 3, "staleness": {"counts": {"-4": 1}}}',
        '{"round": 3, "staleness": {"counts": {"old": 1}}}',
        '{"round": 3, "refused": ["not_finite"]}',
        '{"round": 3, "class_accuracy": 0.5}',
        '{"round": 3, "converted": {"client": "a"}}',
        '{"round": 3, "converted": ["a"]}',
        '{"round": 3, "converted": [{"client": "a", "loss": "low"}]}',
        '{"round": 3, "converted": [{"client": "a", "iterations": 2.5}]}',
        '{"round": 3, "converted": [{"client": "a", "curve": [1, 2]}]}',
        '{"round": 3, "converted": [{"client": "a", "curve": [[1, 2, 3]]}]}',
        '{"round": 3, "fallbacks": ["why"]}',
        '{"round": 3, "gamma": [0.5]}',
        '{"round": 3, "gamma": {"a": "half"}}',
        '{"round": 3, "measured": [{"e1": "far"}]}',
        "[" * 100_000,
    ],
)
def test_a_damaged_line_in_the_middle_names_file_and_line(fake_run, line):
    path = lines_of(fake_run(**SMALL))
    replace_line(path, 3, line.replace("{", VERSION, 1))
    with pytest.raises(RunError, match=r"unweighted.seed-0\.jsonl, line 3 is damaged"):
        read_run(path.parents[2])


@pytest.mark.parametrize(
    ("line", "found"),
    [('{"round": 3}', "a line without one"), ('{"schema": 99, "round": 3}', "version 99")],
)
def test_a_line_of_an_unknown_version_is_refused(fake_run, line, found):
    path = lines_of(fake_run(**SMALL))
    replace_line(path, 3, line)
    with pytest.raises(RunError) as caught:
        read_run(path.parents[2])
    assert str(caught.value) == (
        f"{path}, line 3 cannot be read. A round's line should be of version {SCHEMA} of the "
        f"schema. Found {found}. Use the version of Unstale that wrote it, or run again."
    )


def test_a_last_line_that_is_whole_but_wrong_is_damage(fake_run):
    path = lines_of(fake_run(**SMALL))
    replace_line(path, 6, VERSION + '"round": 6, "accuracy": "high"}')
    with pytest.raises(RunError, match="line 6 is damaged: accuracy should be a number"):
        read_run(path.parents[2])


def test_bytes_that_are_no_text_are_damage(fake_run):
    path = lines_of(fake_run(**SMALL))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = VERSION.encode() + b'"round": 2, "x": "\xff\xfe"}\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(RunError, match="line 2 is damaged"):
        read_run(path.parents[2])


def test_a_round_that_was_written_again_counts_once(fake_run):
    path = lines_of(fake_run(**SMALL))
    with path.open("a") as file:
        file.write(VERSION + '"round": 6, "arrivals": 77}\n')
    rounds = read_run(path.parents[2]).rounds["unweighted"][0]
    assert [r.number for r in rounds] == [1, 2, 3, 4, 5, 6]
    assert rounds[-1].arrivals == 77


def test_numbers_that_are_not_finite_are_absent(fake_run):
    path = lines_of(fake_run(**SMALL))
    replace_line(path, 3, VERSION + '"round": 3, "accuracy": NaN, "affected_accuracy": Infinity}')
    line = read_run(path.parents[2]).rounds["unweighted"][0][2]
    assert line.accuracy is None
    assert line.affected_accuracy is None
    assert math.isfinite(line.seconds)


def test_a_folder_that_is_no_run_folder(tmp_path):
    with pytest.raises(RunError, match=r"should hold a config.json. Found a folder without one"):
        read_run(tmp_path)
    with pytest.raises(RunError, match=r"Found no such folder"):
        read_run(tmp_path / "absent")


@pytest.mark.parametrize("content", ["", "{", "[]", '"text"', "[" * 100_000])
@pytest.mark.parametrize(
    "name", ["config.json", "summary.json", "environment.json", "scenario/seed-0.json"]
)
def test_a_damaged_file_is_named(fake_run, name, content):
    folder = fake_run(**SMALL)
    (folder / name).write_text(content)
    with pytest.raises(RunError, match=name.replace("/", ".")):
        read_run(folder)


def test_a_summary_of_another_format_is_refused(fake_run):
    folder = fake_run(**SMALL)
    edit(folder / "summary.json", format=3)
    with pytest.raises(RunError, match=r"should be of format 1 or 2. Found 3"):
        read_run(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"affected": [10]}, "positions below 10"),
        ({"clients": [{"id": "a", "histogram": [1, 2]}]}, "should have 10 entries"),
        ({"clients": "many"}, "clients should be an array"),
    ],
)
def test_a_scenario_that_contradicts_itself_is_refused(fake_run, changes, said):
    folder = fake_run(**SMALL)
    edit(folder / "scenario" / "seed-0.json", **changes)
    with pytest.raises(RunError, match=said):
        read_run(folder)


def test_what_a_line_tells_of_conversions(fake_run):
    path = lines_of(fake_run(**SMALL))
    line = {
        "schema": SCHEMA,
        "round": 3,
        "converted": [
            {"client": "a", "base_version": 1, "loss": 0.5, "iterations": 7, "start": "cold",
             "curve": [[1, 2.0], [4, None], [7, 0.5]]},
            {"client": "b", "loss": None, "iterations": 2, "start": "warm"},
        ],
        "fallbacks": [{"client": "c", "reason": "why"}],
        "gamma": {"d": 0.25, "e": None},
        "measured": [{"client": "d", "version": 1, "e1": 0.1, "e2": 0.2}],
    }  # fmt: skip
    replace_line(path, 3, json.dumps(line))
    found = read_run(path.parents[2]).rounds["unweighted"][0][2]
    one, two = found.converted
    assert (one.client, one.loss, one.iterations, one.warm) == ("a", 0.5, 7, False)
    assert one.curve == ((1, 2.0), (7, 0.5))
    assert (two.loss, two.warm, two.curve) == (None, True, ())
    assert found.fallbacks == ("why",)
    assert found.gamma == {"d": 0.25}
    assert (found.measured[0].estimate_error, found.measured[0].stale_error) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shape": []}, "shape should be positive"),
        ({"shape": [0, 4]}, "shape should be positive"),
        ({"shape": [2, 3]}, "should have 6 values"),
        ({"labels": [[1.0]]}, "labels should be 8"),
        ({"x": [[float("nan")] * 4] * 8}, "x should hold finite numbers"),
        ({"x": "many"}, "x should be an array"),
        ({"low": "dark"}, "low should be a number"),
    ],
)
def test_damaged_surrogates_are_named(fake_run, write_surrogates, changes, said):
    folder = fake_run(**SMALL)
    path = write_surrogates(folder, "unweighted", 0, (1, 2, 2))
    content = json.loads(path.read_text())
    content["clients"][0] |= changes
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match=rf"unweighted.seed-0\.json.* is damaged: .*{said}"):
        read_run(folder)


def test_surrogates_without_bounds_are_shown_between_their_own(fake_run, write_surrogates):
    folder = fake_run(**SMALL)
    path = write_surrogates(folder, "unweighted", 0, (1, 2, 2))
    content = json.loads(path.read_text())
    content["clients"][0] |= {"low": None, "high": None, "x": [[-3.0, 0, 1, 2]], "labels": [[1]]}
    path.write_text(json.dumps(content))
    found = read_run(folder).surrogates["unweighted"][0][0]
    assert (found.low, found.high) == (-3.0, 2.0)


def test_a_config_cannot_point_out_of_the_folder(fake_run):
    fake_run("other", **SMALL)
    folder = fake_run(**SMALL)
    outside = "../../other/rounds/unweighted"
    edit(folder / "config.json", methods=[{"name": "x", "label": outside}])
    run = read_run(folder)
    assert outside not in run.rounds
    assert [m.label for m in run.methods] == [outside, "no_delay", "unweighted"]
