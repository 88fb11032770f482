"""Settings that were chosen in another run, or that lie beside the experiment file."""

import dataclasses
import json

import pytest

from unstale.errors import ConfigError, RunError
from unstale.experiment import (
    RunFolder,
    load_tuned,
    parse,
    run_experiment,
    tuning_beside,
)
from unstale.experiment.tuning.recorded import fitting
from unstale.run_folder.tuning import Try, read_tuning, write_tuning


@pytest.fixture
def record(tuned_table):
    """A record as a tuning of the tiny experiment leaves it, without having run one."""
    from unstale.experiment.tuning.plan import plan

    config = parse(tuned_table)
    planned = plan(config.methods, config.tuning, json.loads(json.dumps(config.to_json())))
    methods = {
        label: dataclasses.replace(
            one,
            tries=tuple(Try(t.settings, score=0.1 * i) for i, t in enumerate(one.tries)),
            chosen=1,
        )
        for label, one in planned.methods.items()
    }
    return dataclasses.replace(planned, methods=methods, finished=True)


def run(tuned_table, tmp_path, name, **options):
    folder = RunFolder(tmp_path / name)
    run_experiment(parse(tuned_table), folder, checkpoint_seconds=1e9, **options)
    return folder


def test_a_record_is_used_and_copied(record, tuned_table, tmp_path):
    folder = run(tuned_table, tmp_path, "a", tuned=record)
    copied = read_tuning(folder.tuning_path)
    assert copied.elsewhere == ()
    assert copied.methods["taylor"].choice.settings == {"lam": 4}
    told = json.loads(folder.summary_path.read_text())["tuning"]
    assert told["methods"]["weighted"]["chosen"] == {"b": 1.0}
    assert told["elsewhere"] == []
    tuned_table["methods"][1] = {"name": "first_order", "label": "taylor", "lam": 4}
    tuned_table["methods"][2] = {"name": "weighted", "b": 1.0}
    plain = run(tuned_table, tmp_path, "plain")
    for label in ("taylor", "weighted"):
        one, two = (
            json.loads(f.summary_path.read_text())["methods"][label] for f in (folder, plain)
        )
        assert one == two


def test_what_differs_is_said(record, tuned_table):
    tuned_table |= {"title": "Other", "seeds": [20, 21], "rounds": 9}
    tuned_table["latency"]["rounds"] = 2
    tuned_table["methods"][0] = "drop"  # not tuned, so it has no part in it
    tuned_table["methods"][1]["lam"] = 0.75
    found = fitting(record, parse(tuned_table))
    assert found.elsewhere == ("latency.rounds", "methods.taylor.lam", "rounds")


def test_only_methods_of_the_experiment_are_taken(record, tuned_table):
    config = parse(tuned_table)
    one = dataclasses.replace(config, methods=config.methods[:2])
    assert list(fitting(record, one).methods) == ["taylor"]
    none = dataclasses.replace(config, methods=config.methods[:1])
    assert fitting(record, none) is None


def test_other_lists_are_refused(record, tuned_table):
    tuned_table["methods"][1]["tune"] = {"lam": [0.25, 5]}
    with pytest.raises(ConfigError, match=r"For 'taylor' it lists .*0\.25, 5.*chose from .*0\.25"):
        fitting(record, parse(tuned_table))


def test_reported_seeds_are_no_tuning_seeds(record, tuned_table):
    tuned_table |= {"seeds": [1, 10], "tuning": {"seeds": [2]}}
    with pytest.raises(ConfigError, match=r"Found \[1\] in both"):
        fitting(record, parse(tuned_table))


def test_an_unfinished_record_is_refused(record, tuned_table):
    with pytest.raises(ConfigError, match="Found an unfinished one"):
        fitting(dataclasses.replace(record, finished=False), parse(tuned_table))


def test_either_tune_or_tuned(record, tuned_table, tmp_path):
    with pytest.raises(ConfigError, match="Found both `tune` and `tuned`"):
        run(tuned_table, tmp_path, "a", tune=True, tuned=record)


def test_resumed_as_it_began(record, tuned_table, tmp_path, recorder):
    with pytest.raises(KeyboardInterrupt):
        run(tuned_table, tmp_path, "a", tuned=record, progress=recorder(3))
    with pytest.raises(RunError, match=r"began with settings of another run \(--tuned\)"):
        run(tuned_table, tmp_path, "a", tune=True)
    folder = run(tuned_table, tmp_path, "a")  # its own copy is enough
    assert "tuning" in json.loads(folder.summary_path.read_text())


def test_load_from_a_folder_or_a_file(record, tmp_path):
    write_tuning(tmp_path / "tuning.json", record)
    assert load_tuned(tmp_path) == load_tuned(tmp_path / "tuning.json") == record
    with pytest.raises(ConfigError, match=r"There is no .*nothing"):
        load_tuned(tmp_path / "nothing")
    (tmp_path / "tuning.json").write_text('{"format": 1, "methods": 5}')
    with pytest.raises(RunError, match="methods should be an object"):
        load_tuned(tmp_path)


def test_beside_the_file(tmp_path):
    (tmp_path / "x").mkdir()
    for name in ("x/config.toml", "y.toml", "z.toml"):
        (tmp_path / name).touch()
    beside = tmp_path / "x" / "tuning.json"
    assert tuning_beside(tmp_path / "x") is None
    beside.touch()
    (tmp_path / "y.tuning.json").touch()
    assert tuning_beside(tmp_path / "x") == tuning_beside(tmp_path / "x/config.toml") == beside
    assert tuning_beside(tmp_path / "y.toml") == tmp_path / "y.tuning.json"
    assert tuning_beside(tmp_path / "z.toml") is None
    assert tuning_beside("quickstart") is None
