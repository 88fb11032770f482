"""The table [optimizer] of an experiment: checked, run, resumed to the bit, and shown."""

import json

import pytest
import torch
from safetensors.torch import load_file

import unstale as us
from unstale.errors import ConfigError
from unstale.experiment import load_experiment, parse
from unstale.experiment.optimizer_table import parse_optimizer
from unstale.methods import Plain
from unstale.report import read_run
from unstale.report.context import Context
from unstale.report.html import build_page
from unstale.run_folder.differences import differences
from unstale.run_folder.lines import Lines

pytestmark = pytest.mark.usefixtures("_clouds")

ADAM = {"name": "fedadam", "lr": 0.05}


def lines_of(folder, label, seed=0):
    read = Lines(folder.lines_path(label, seed)).read()
    return [{k: v for k, v in line.to_json().items() if k != "seconds"} for line in read]


def final_of(folder, label):
    return load_file(folder.checkpoints_path(label, 0) / "final.safetensors")


def test_the_table_becomes_an_optimizer_and_comes_back(table):
    before = parse(table).to_json()
    assert "optimizer" not in before, "runs of before are as they were"
    config = parse({**table, "optimizer": ADAM})
    assert config.optimizer == us.FedAdam(lr=0.05)
    assert parse(config.to_json()) == config
    assert differences(before, config.to_json()) == ["optimizer"]
    for plain in ("plain", {"name": "plain"}):
        assert parse({**table, "optimizer": plain}).to_json() == before
    assert parse_optimizer("fedyogi") == us.FedYogi()
    assert parse_optimizer(us.FedYogi(lr=1.0)) == us.FedYogi(lr=1.0)
    assert parse_optimizer(None) == Plain()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": "fedadm"}, "`optimizer.name` should be one of.*Did you mean 'fedadam'"),
        ({"lr": 0.1}, r"`optimizer.name` should be one of: plain, .* Found nothing"),
        ({"name": "fedadam", "beta_2": 0.5}, r"A key of \[optimizer\].*Did you mean 'beta2'"),
        ({"name": "fedadam", "beta2": 1}, r"\[optimizer\] fedadam: `beta2` should be in \[0, 1\)"),
        ({"name": "fedadam", "lr": "much"}, "`optimizer.lr` should be a number"),
        ({"name": "plain", "lr": 0.1}, r"A key of \[optimizer\]"),
        (3, r"\[optimizer\] should be a table"),
    ],
)
def test_wrong_tables(table, value, said):
    with pytest.raises(ConfigError, match=said):
        parse({**table, "optimizer": value})


def test_a_method_that_makes_the_model_is_refused_before_anything_runs(table):
    table["methods"].append({"name": "fedat"})
    assert parse(table).optimizer == Plain()
    with pytest.raises(ConfigError, match="Method 'fedat' sets the global model"):
        parse({**table, "optimizer": ADAM})


def test_from_the_command_line():
    options = ["optimizer.name=fedavgm", "optimizer.momentum=0.5"]
    some = ["unweighted", "convert"]
    config = load_experiment("quickstart", overrides=options, methods=some)
    assert config.optimizer == us.FedAvgM(momentum=0.5)
    with pytest.raises(ConfigError, match="'fedat' sets the global model"):
        load_experiment("quickstart", overrides=options)


def test_every_method_of_a_run_has_it_and_the_page_says_so(run_tiny, table):
    """`no_delay` too: it is the upper bound of what this optimizer can reach."""
    table["methods"] = [{"name": "no_delay"}, {"name": "unweighted"}]
    table["seeds"] = [0]
    plain = run_tiny("plain", table=table)
    moved = run_tiny("moved", table={**table, "optimizer": ADAM})
    for label in ("no_delay", "unweighted"):
        one, other = final_of(plain, label), final_of(moved, label)
        assert any(not torch.equal(one[n], other[n]) for n in one)
    config = json.loads(moved.config_path.read_text())
    assert config["optimizer"] == {**ADAM, "beta1": 0.9, "tau": 1e-3, "initial_v": None,
                                   "beta2": 0.99}  # fmt: skip
    page = build_page(Context.of(read_run(moved.path)))
    assert "fedadam, lr 0.05, beta1 0.9, tau 0.001, beta2 0.99" in page
    assert "Server optimizer" not in build_page(Context.of(read_run(plain.path)))


@pytest.mark.parametrize("name", ["fedavgm", "fedadam", "fedyogi", "fedadagrad"])
def test_stopped_and_resumed_it_is_the_same_to_the_bit(name, run_tiny, table, recorder):
    table |= {"seeds": [0], "optimizer": {"name": name, "lr": 0.02}}
    whole = run_tiny("whole", table=table)
    for stop in (2, 3, 9):
        with pytest.raises(KeyboardInterrupt):
            run_tiny("a", table=table, progress=recorder(stop), checkpoint_seconds=0.0)
    pieces = run_tiny("a", table=table, checkpoint_seconds=0.0)
    for label in ("unweighted", "taylor"):
        assert lines_of(whole, label) == lines_of(pieces, label)
        one, other = final_of(whole, label), final_of(pieces, label)
        assert all(torch.equal(one[n], other[n]) for n in one)


def test_another_optimizer_is_another_run(run_tiny, table, recorder):
    with pytest.raises(KeyboardInterrupt):
        run_tiny("a", progress=recorder(3), checkpoint_seconds=0.0)
    with pytest.raises(us.UnstaleError, match="optimizer"):
        run_tiny("a", table={**table, "optimizer": ADAM})
