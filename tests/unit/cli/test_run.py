import json
import shlex

import pytest

KEYS = {
    "accuracy", "affected_accuracy", "affected_mean", "held_from", "seconds",
    "conversions", "iterations",
}  # fmt: skip


def test_json_on_stdout_and_the_rest_on_stderr(unstale, small, tmp_path):
    result = unstale("run", *small, "--json")
    assert result.code == 0
    found = json.loads(result.out)  # nothing but JSON
    assert found["scenario"] == "quickstart"
    assert list(found["methods"]) == ["no_delay", "unweighted"]
    assert all(set(figures) >= KEYS for figures in found["methods"].values())
    assert found["run"] == "runs/quickstart-001"
    assert (tmp_path / found["run"] / "summary.json").is_file()
    assert "report" not in found
    assert "unweighted seed 0 round 3/3" in result.err


def test_table_and_paths(unstale, small):
    result = unstale("run", *small)
    assert result.code == 0
    for part in ("no_delay", "unweighted", "affected", "Run: runs/quickstart-001", "3 rounds"):
        assert part in result.out
    assert "Report:" not in result.out
    assert "round 3/3" not in result.out


def test_surrogates_are_asked_for_by_a_flag(unstale, small, tmp_path):
    for out, more in (("a", ()), ("b", ("--surrogates",))):
        assert unstale("run", *small, "--out", out, *more).code == 0
    configs = [json.loads((tmp_path / out / "config.json").read_text()) for out in "ab"]
    assert [config.get("storage", {}).get("surrogates") for config in configs] == [None, True]


def test_every_run_gets_a_folder_of_its_own(unstale, small, tmp_path):
    for _ in range(2):
        assert unstale("run", *small).code == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == [
        "quickstart-001", "quickstart-002"
    ]  # fmt: skip


def test_an_existing_run_without_resume_is_refused(unstale, small, tmp_path):
    assert unstale("run", *small, "--out", "r").code == 0
    before = (tmp_path / "r" / "summary.json").read_bytes()
    result = unstale("run", *small, "--out", "r")
    assert result.code == 2
    assert result.err.startswith("Error: A new run should have a folder of its own. r holds one")
    assert "--resume" in result.err
    assert (tmp_path / "r" / "summary.json").read_bytes() == before


def test_resume_of_a_finished_run(unstale, small, tmp_path, monkeypatch):
    assert unstale("run", *small).code == 0
    before = (tmp_path / "runs/quickstart-001/summary.json").read_bytes()

    def refuse(*_, **__):
        raise AssertionError("nothing should be run")

    monkeypatch.setattr("unstale.sim.Simulation.run_round", refuse)
    result = unstale("run", *small, "--resume")  # the latest, without --out
    assert result.code == 0
    assert "Run: runs/quickstart-001" in result.out
    assert (tmp_path / "runs/quickstart-001/summary.json").read_bytes() == before


def test_resume_with_another_config_names_the_key(unstale, small):
    assert unstale("run", *small, "--out", "r").code == 0
    result = unstale("run", *small, "--out", "r", "--resume", "--set", "local.lr=0.125")
    assert result.code == 1
    assert "differs in: local.lr." in result.err
    result = unstale("run", *small, "--out", "r", "--resume", "--seeds", "1")
    assert result.code == 1
    assert "differs in: seeds." in result.err


def test_resume_with_nothing_there_starts(unstale, small):
    result = unstale("run", *small, "--resume")
    assert result.code == 0
    assert "Nothing to resume yet" in result.err


@pytest.mark.parametrize("seeds", ["3", "0,1"])
def test_seeds(seeds, unstale, small, tmp_path):
    arguments = list(small)
    arguments[arguments.index("--seeds") + 1] = seeds
    result = unstale("run", *arguments, "--json")
    assert json.loads(result.out)["seeds"] == [int(s) for s in seeds.split(",")]


def test_the_command_is_kept(unstale, small, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/unstale", "run", "--set", "title=a b"])
    assert unstale("run", *small, "--out", "r").code == 0
    kept = json.loads((tmp_path / "r" / "environment.json").read_text())["command"]
    assert kept == "unstale run --set 'title=a b'"


def test_interrupted(unstale, small, tmp_path, monkeypatch):
    """The command it prints goes on with the same run, whatever options it was started with."""
    file = tmp_path / "my file.toml"
    file.write_text(
        'rounds = 3\n[data]\nname = "digits"\n[model]\nname = "digits"\n'
        '[partition]\nkind = "iid"\nclients = 4\nsamples = 9\n'
        '[latency]\nkind = "none"\n[[methods]]\nname = "weighted"\n'
    )
    options = [
        "--set", "title=it's a title", "--set", "name=mine", "--seeds", "2,3",
        "--out", "the run", "--data", str(tmp_path), "--json", "--no-report",
    ]  # fmt: skip
    from unstale.cli.progress import LiveProgress

    advance = LiveProgress.advance

    def stop(self, label, seed, line):
        advance(self, label, seed, line)
        if (seed, line.number) == (3, 2):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LiveProgress, "advance", stop)
        result = unstale("run", "my file.toml", *options)
    assert result.code == 1
    assert result.out == ""
    assert "Traceback" not in result.err
    command = result.err.strip().splitlines()[-1].removeprefix("Stopped. Go on with: ")
    program, *arguments = shlex.split(command)
    assert program == "unstale"
    assert "--resume" in arguments
    again = unstale(*arguments)
    assert again.code == 0
    assert "Nothing to resume" not in again.err
    assert json.loads(again.out)["run"] == "the run"
    assert unstale("run", "my file.toml", *options[:6], "--out", "x", "--no-report").code == 0
    one, two = ((tmp_path / d / "summary.json").read_bytes() for d in ("the run", "x"))
    assert one == two


def test_the_device_is_part_of_the_command_to_resume(unstale, small, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("unstale.experiment.run_experiment", stop)
    result = unstale("run", *small, "--device", "cuda:1")
    assert result.code == 1
    assert "--device cuda:1" in result.err


def test_interrupted_while_the_report_is_made(unstale, small, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("unstale.report.write_report", stop)
    result = unstale("run", *(option for option in small if option != "--no-report"))
    assert result.code == 1
    assert "Go on with: unstale run" in result.err


def test_sigterm_is_what_it_was_before(unstale, small):
    import signal

    before = signal.getsignal(signal.SIGTERM)
    unstale("run", *small)
    assert signal.getsignal(signal.SIGTERM) == before


def test_titles_and_paths_are_shown_as_they_are(unstale, small, tmp_path):
    title = "a [/red] title [bold]x"
    out = "[dir]/" + "long-" * 30
    result = unstale("run", *small, "--set", f"title={title}", "--out", out)
    assert result.code == 0
    assert f"{title} → {out}" in result.err
    assert f"Run: {out}" in result.out


PLUGIN = """
from unstale.methods import MethodSpec, register

register("as_they_come", MethodSpec("As they come.", "-"), force=True)
"""


def test_a_plugin_registers_a_method_and_any_method_can_be_run(unstale, tmp_path):
    from unstale.methods import METHODS

    (tmp_path / "mine.py").write_text(PLUGIN)
    options = ("--no-report", "--json", "--seeds", "0", "--set", "rounds=2")
    wanted = "as_they_come,drop,unweighted"
    try:
        listed = unstale("methods", "--plugin", "mine.py")
        found = unstale("run", *options, "--plugin", "mine.py", "--methods", wanted)
    finally:
        METHODS.pop("as_they_come", None)
    assert "as_they_come" in listed.out
    assert found.code == 0, found.err
    methods = json.loads(found.out)["methods"]
    assert list(methods) == ["unweighted", "as_they_come", "drop"]
    assert methods["as_they_come"]["accuracy"] == methods["unweighted"]["accuracy"]
    refused = unstale("run", *options, "--plugin", "other.py")
    assert (refused.code, "--plugin should name a Python file" in refused.err) == (2, True)


SINK = """
from pathlib import Path

class Told:
    def open(self, run):
        return self
    def write(self, round, scalars):
        with Path("told").open("a") as file:
            file.write(f"{round} ")
    def close(self, summary):
        pass
"""


def test_sinks_by_name_and_of_ones_own(unstale, small, tmp_path):
    (tmp_path / "my_sink.py").write_text(SINK)
    told = ("--sink", "my_sink:Told", "--sink", "tensorboard")
    assert unstale("run", *small, *told, "--out", "r").code == 0
    assert (tmp_path / "told").read_text() == "1 2 3 1 2 3 "
    assert len(list((tmp_path / "r" / "tensorboard").rglob("events.out.*"))) == 2


def test_an_unknown_sink_is_refused_before_anything_runs(unstale, small, tmp_path):
    result = unstale("run", *small, "--sink", "tensorbord", "--out", "r")
    assert result.code == 2
    assert "tensorboard" in result.err
    assert not (tmp_path / "r").exists()
