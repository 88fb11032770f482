"""Runs that tune: what is tried, chosen and left behind, and what stops them."""

import json

import pytest

from unstale.errors import ConfigError, RunError
from unstale.experiment import RunFolder, parse, run_experiment
from unstale.experiment import one_part as module
from unstale.run_folder.lines import Lines
from unstale.run_folder.tuning import read_tuning
from unstale.sim import Simulation

TRIES = ["taylor-1", "taylor-2", "weighted-1", "weighted-2"]


@pytest.fixture
def tune(tuned_table, tmp_path):
    """Run the experiment with tuning into a folder below the test's own; return the folder."""

    def run(name="a", table=tuned_table, tune=True, **options):
        folder = RunFolder(tmp_path / name)
        run_experiment(parse(table), folder, tune=tune, checkpoint_seconds=1e9, **options)
        return folder

    return run


def lines(folder, label, seed):
    found = Lines(folder.lines_path(label, seed)).read()
    return [
        {k: v for k, v in line.to_json().items() if k not in ("seconds", "method")}
        for line in found
    ]


def best(method):
    scores = [one.score for one in method.tries]
    return scores.index(max(scores))


def test_what_a_tuned_run_leaves_behind(tune, recorder):
    progress = recorder()
    folder = tune(progress=progress, command="unstale run tiny --tune")
    record = read_tuning(folder.tuning_path)
    assert record.finished
    assert (record.seeds, record.budget, record.criterion) == ((0, 1), 2, "affected_and_overall")
    assert {label: one.size for label, one in record.methods.items()} == {
        "taylor": 2,
        "weighted": 2,
    }
    assert record.environment["command"] == "unstale run tiny --tune"
    assert record.config == json.loads(folder.config_path.read_text())
    # The tries are a run folder of their own, without the weights that nobody needs.
    assert sorted(p.name for p in (folder.tries.path / "rounds").iterdir()) == TRIES
    assert not (folder.tries.path / "checkpoints").exists()
    assert folder.tries.is_done
    # Progress is told of both, one after the other.
    assert progress.began == 2
    assert list(dict.fromkeys((label, seed) for label, seed, _ in progress.seen)) == [
        *((label, seed) for seed in (0, 1) for label in TRIES),
        *((label, 10) for label in ("unweighted", "taylor", "weighted")),
    ]


def test_scores_are_those_of_the_lines(tune):
    folder = tune()
    record = read_tuning(folder.tuning_path)
    for label, method in record.methods.items():
        for at, one in enumerate(method.tries, start=1):
            for seed, figures in one.per_seed.items():
                late = [
                    line
                    for line in lines(folder.tries, f"{label}-{at}", seed)
                    if line["round"] > 3.5 and line["accuracy"] is not None
                ]
                mean = sum(line["affected_accuracy"] for line in late) / len(late)
                assert figures["affected_mean"] == pytest.approx(mean)
            assert one.score == pytest.approx(
                (one.figures["affected_mean"] + one.figures["accuracy_mean"]) / 2
            )
        assert method.chosen == best(method)


def test_the_chosen_settings_are_used_on_the_reported_seeds(tune, tuned_table):
    folder = tune()
    record = read_tuning(folder.tuning_path)
    for method in tuned_table["methods"][1:]:
        label = method.get("label", method["name"])
        del method["tune"]
        method |= record.methods[label].choice.settings
    plain = tune("plain", tune=False)
    for label in ("unweighted", "taylor", "weighted"):
        assert lines(folder, label, 10) == lines(plain, label, 10)


def test_the_choice_matters(tune, tuned_table):
    """Own settings, tries and choice are really different runs."""
    tuned_table["methods"][1]["tune"] = {"lam": [0.25, 64]}
    folder = tune()
    assert lines(folder.tries, "taylor-1", 0) != lines(folder.tries, "taylor-2", 0)
    own = tune("own", tune=False)
    assert lines(folder, "taylor", 10) != lines(own, "taylor", 10)
    assert lines(folder, "unweighted", 10) == lines(own, "unweighted", 10)


def test_the_summary_says_what_was_tried(tune):
    folder = tune()
    record = read_tuning(folder.tuning_path)
    told = json.loads(folder.summary_path.read_text())["tuning"]
    assert told["seeds"] == [0, 1]
    taylor = told["methods"]["taylor"]
    assert [one["settings"] for one in taylor["tried"]] == [{"lam": 0.25}, {"lam": 4}]
    assert taylor["chosen"] == dict(record.methods["taylor"].choice.settings)
    assert taylor["score"] == record.methods["taylor"].choice.score


def test_without_tuning_methods_have_their_own_settings(tune):
    folder = tune(tune=False)
    assert not folder.tuning_path.exists()
    assert not folder.tries.path.exists()
    assert "tuning" not in json.loads(folder.summary_path.read_text())


# --- stop and resume ------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 7, 20, 56, 57, 70])
def test_stopped_and_resumed(stop, tune, recorder, monkeypatch):
    undisturbed = tune("undisturbed")
    with pytest.raises(KeyboardInterrupt):
        tune(progress=recorder(stop))
    rounds = 0
    run_round = Simulation.run_round

    def counted(self, **options):
        nonlocal rounds
        rounds += 1
        return run_round(self, **options)

    monkeypatch.setattr(Simulation, "run_round", counted)
    folder = tune(tune=False)  # it goes on as it began, whatever it is told
    assert folder.summary_path.read_bytes() == undisturbed.summary_path.read_bytes()
    whole = 7 * (4 * 2 + 3)
    assert rounds == whole - stop  # nothing that was done is done again


def test_a_run_is_resumed_as_it_began(tune, recorder):
    with pytest.raises(KeyboardInterrupt):
        tune(tune=False, progress=recorder(3))
    with pytest.raises(RunError, match="began without tuned settings"):
        tune(tune=True)


# --- what goes wrong ------------------------------------------------------------------------


def test_a_try_that_fails_is_noted_and_never_wins(tune, monkeypatch):
    prepare = module.prepare

    def broken(config, method, scenario, *rest):
        if method.label == "taylor-2" and scenario.seed == 1:
            raise ValueError("no such luck")
        return prepare(config, method, scenario, *rest)

    monkeypatch.setattr(module, "prepare", broken)
    taylor = read_tuning(tune().tuning_path).methods["taylor"]
    assert [one.fault for one in taylor.tries] == ["", "failed: ValueError: no such luck"]
    assert taylor.tries[1].score is None
    assert taylor.chosen == 0


def test_if_all_tries_of_a_method_fail_the_run_says_so_and_can_go_on(tune, monkeypatch):
    prepare = module.prepare

    def broken(config, method, scenario, *rest):
        if method.label.startswith("taylor-"):
            raise RuntimeError("out of memory")
        return prepare(config, method, scenario, *rest)

    monkeypatch.setattr(module, "prepare", broken)
    with pytest.raises(RunError, match=r"At least one try of method 'taylor' .* out of memory"):
        tune()
    monkeypatch.setattr(module, "prepare", prepare)
    assert read_tuning(tune().tuning_path).methods["taylor"].chosen is not None


def test_faults_of_the_disk_are_no_fault_of_a_try(tune, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "prepare", full)
    with pytest.raises(OSError, match="No space"):
        tune()


def test_a_try_that_diverges_never_wins(tune, tuned_table):
    tuned_table["local"]["lr"] = 3.0
    tuned_table["methods"] = [
        {"name": "unweighted", "tune": {"server_lr": [1e30, 0.1]}},
    ]
    method = read_tuning(tune().tuning_path).methods["unweighted"]
    assert method.tries[0].fault.startswith("diverged: the ")
    assert method.chosen == 1


def test_if_all_diverge_a_method_keeps_its_own_settings(tune, tuned_table):
    tuned_table["methods"] = [{"name": "unweighted", "tune": {"server_lr": [1e30, 1e31]}}]
    folder = tune()
    assert read_tuning(folder.tuning_path).methods["unweighted"].chosen is None
    told = json.loads(folder.summary_path.read_text())["tuning"]["methods"]["unweighted"]
    assert told["chosen"] is None
    own = tune("own", tune=False)
    assert lines(folder, "unweighted", 10) == lines(own, "unweighted", 10)


def test_nothing_to_tune(tune, tuned_table, tmp_path):
    tuned_table["methods"] = ["unweighted"]
    with pytest.raises(ConfigError, match="Found no method with `tune`"):
        tune()
    assert not (tmp_path / "a").exists()


def test_a_criterion_without_its_class(tune, tuned_table, tmp_path):
    tuned_table["latency"] = {"kind": "none"}
    with pytest.raises(ConfigError, match="should have affected classes to measure"):
        tune()
    assert not (tmp_path / "a").exists()
    tuned_table["tuning"] = {"criterion": "accuracy"}
    assert read_tuning(tune().tuning_path).finished
