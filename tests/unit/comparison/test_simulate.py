"""`simulate`: the same run as of an experiment file, from the objects of a program."""

import json
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import unstale as us
from unstale import data
from unstale.errors import ConfigError, DataError, RunError, UnknownNameError
from unstale.experiment import RunFolder, load_experiment, parse, run_experiment

RNG = torch.Generator().manual_seed(3)
Y = torch.arange(120) % 3
X = torch.rand(120, 4, generator=RNG) / 2 + Y[:, None] / 6
DATA = (X[:90], Y[:90], X[90:], Y[90:])
SMALL = {"clients": 6, "slow": {0: 2}, "methods": ["unweighted"], "rounds": 4, "progress": False}


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda handle: None)


def net():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def config_of(found):
    return json.loads((found.folder / "config.json").read_text())


def test_it_gives_the_numbers_of_the_same_file(tmp_path):
    options = ["rounds=6", "latency.rounds=2", 'methods=["no_delay", "first_order"]']
    config = load_experiment("quickstart", overrides=options, seeds=[0, 3])
    run_experiment(config, RunFolder(tmp_path / "file"))
    digits = data.load("digits")
    us.simulate(
        "digits",
        (digits.x_train, digits.y_train, digits.x_test, digits.y_test),
        clients=us.OneClass(clients=30, samples=40),
        slow=us.IntertwinedLatency(classes=(5,), clients=3, rounds=2),
        methods=["no_delay", us.method("first_order")],
        cohort=us.SampledCohort(fast=9, slow=1),
        local=us.LocalSpec(lr=0.2, momentum=0.5, epochs=5),
        evaluate={"target": 0.8},
        rounds=6,
        seeds=[0, 3],
        threads=1,
        out=tmp_path / "python",
        name="quickstart",
        title=config.title,
        progress=False,
    )
    one, two = (tmp_path / name for name in ("file", "python"))
    assert (one / "summary.json").read_bytes() == (two / "summary.json").read_bytes()
    mine, theirs = (json.loads((folder / "config.json").read_text()) for folder in (two, one))
    differing = {key for key in theirs if mine[key] != theirs[key]}
    assert differing == {"data", "description"}
    for name in ("first_order", "no_delay"):
        weights = [f / "checkpoints" / name / "seed-3" / "final.safetensors" for f in (one, two)]
        assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_function_gives_the_numbers_of_the_file_that_names_it(tmp_path):
    source = "import test_of_simulate as here\\nnet, load = here.net, lambda: here.DATA\\n"
    (tmp_path / "own_net.py").write_text(source.replace("\\n", "\n"))
    table = {
        "name": "simulation",
        "rounds": 4,
        "data": {"factory": "own_net:load"},
        "model": {"factory": "own_net:net"},
        "partition": {"kind": "iid", "clients": 6},
        "latency": {"kind": "constant", "clients": [0], "rounds": 2},
        "methods": ["unweighted"],
    }
    sys.modules["test_of_simulate"] = sys.modules[__name__]
    try:
        run_experiment(parse(table), RunFolder(tmp_path / "file"))
    finally:
        del sys.modules["test_of_simulate"], sys.modules["own_net"]
    found = us.simulate(net, DATA, **{**SMALL, "clients": us.Iid(6)})
    one, two = (folder / "summary.json" for folder in (tmp_path / "file", found.folder))
    assert one.read_bytes() == two.read_bytes()


def test_a_name_and_tables_are_those_of_the_file(tmp_path):
    table = {
        "name": "simulation",
        "rounds": 2,
        "seeds": [1],
        "data": {"name": "digits"},
        "model": {"name": "mlp", "hidden": [4]},
        "partition": {"kind": "iid", "clients": 8},
        "latency": {"classes": [3], "clients": 2, "rounds": 5},
        "local": {"lr": 0.1},
        "methods": [{"name": "drop", "max_staleness": 3, "label": "d"}],
    }
    found = us.simulate(
        table["model"],
        "digits",
        clients=table["partition"],
        slow=table["latency"],
        methods={"d": us.method("drop", max_staleness=3)},
        rounds=2,
        seeds=range(1, 2),
        local=table["local"],
        progress=False,
    )
    assert config_of(found) == json.loads(json.dumps(parse(table).to_json()))
    assert found.folder.as_posix() == "runs/simulation-001"


@pytest.mark.parametrize(
    ("clients", "kind", "count"),
    [
        (6, "dirichlet", 6),
        (us.Iid(5), "iid", 5),
        ({"kind": "one_class", "clients": 3, "samples": 4}, "one_class", 3),
        ([range(10), [20, 30], np.array([50, 51])], "user", 3),
        ({"ann": [0, 1], "bob": [2, 3]}, "user", 2),
        ("clients.csv", "csv", 2),
    ],
    ids=["number", "object", "table", "lists", "lists by name", "csv"],
)
def test_clients(clients, kind, count, tmp_path):
    (tmp_path / "clients.csv").write_text("sample,client\n0,a\n1,a\n2,b\n")
    found = us.simulate(net, DATA, **{**SMALL, "clients": clients, "rounds": 1})
    assert config_of(found)["partition"]["kind"] == kind
    scenario = json.loads((found.folder / "scenario" / "seed-0.json").read_text())
    assert len(scenario["clients"]) == count


def test_a_partition_by_name_is_fitted_to_the_data():
    x, y = X.repeat(5, 1), Y.repeat(5)
    options = {**SMALL, "clients": "dirichlet", "rounds": 1}
    found = us.simulate(net, (x, y, *DATA[2:]), **options)
    assert config_of(found)["partition"]["samples"] == 600 // 100


@pytest.mark.parametrize(
    ("slow", "latencies"),
    [
        (None, [0, 0, 0]),
        ({2: 4, 0: 7}, [7, 0, 4]),
        ([1], [0, 10, 0]),
        ({"clients": [0, 1], "rounds": 3}, [3, 3, 0]),
        ({"classes": [1], "clients": 1, "rounds": 9}, [0, 9, 0]),
        (us.ConstantLatency(5, clients=(2,)), [0, 0, 5]),
    ],
)
def test_slow(slow, latencies):
    lists = [torch.where(Y[:90] == k)[0] for k in range(3)]
    found = us.simulate(net, DATA, **{**SMALL, "clients": lists, "slow": slow, "rounds": 1})
    scenario = json.loads((found.folder / "scenario" / "seed-0.json").read_text())
    assert [client["latency"] for client in scenario["clients"]] == latencies


class EveryOther(us.Latency):
    """A latency of the user's own."""

    def plan(self, hist, seed):
        return us.ConstantLatency(2, clients=range(0, len(hist), 2)).plan(hist, seed)


def test_parts_and_methods_of_ones_own():
    methods = {"late": us.Drop(1), "mixed": us.chain(us.Drop(9), us.PolynomialWeight(0.5))}
    found = us.simulate(net, DATA, **{**SMALL, "slow": EveryOther(), "methods": methods})
    written = config_of(found)
    assert written["latency"] == {"kind": "given", "is": "EveryOther"}
    assert written["methods"][0]["given"].startswith("Drop(max_staleness=1)")
    assert [line.stale for line in found.rounds("mixed")] == [0, 0, 3, 0]
    assert sum(line.notes.get("dropped", 0) for line in found.rounds("late")) > 0
    again = us.simulate(
        net, DATA, **{**SMALL, "slow": EveryOther(), "methods": methods, "out": found.folder}
    )
    assert again.methods["late"] == found.methods["late"]
    with pytest.raises(ConfigError, match="of a run from Python"):
        parse(written)


def test_other_forms_of_data():
    held = ([(X[:40], Y[:40]), (X[40:90], Y[40:90])], DATA[2:])
    found = us.simulate(net, held, **{**SMALL, "clients": None, "rounds": 1})
    assert config_of(found)["partition"]["kind"] == "user"
    pair = (TensorDataset(*DATA[:2]), TensorDataset(*DATA[2:]))
    assert us.simulate(net, pair, **{**SMALL, "rounds": 1}).methods


def test_a_model_that_is_given_keeps_its_weights_and_is_not_changed():
    model = net()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    one = us.simulate(model, DATA, **SMALL, seeds=[0, 1])
    two = us.simulate(model, DATA, **SMALL, seeds=[0, 1])
    assert all(torch.equal(one, model.state_dict()[name]) for name, one in before.items())
    first, second = (found.rounds("unweighted", 1)[-1] for found in (one, two))
    assert first.loss == second.loss


def test_it_goes_on_where_it_stopped(tmp_path, recorder):
    whole = us.simulate(net, DATA, **SMALL, seeds=[0, 1], out="whole")
    options = {**SMALL, "progress": recorder(stop_after=6)}
    with pytest.raises(KeyboardInterrupt):
        us.simulate(net, DATA, **options, seeds=[0, 1], out="parts")
    watched = recorder()
    parts = us.simulate(net, DATA, **{**SMALL, "progress": watched}, seeds=[0, 1], out="parts")
    assert len(watched.seen) == 8
    one, two = ((found.folder / "summary.json").read_bytes() for found in (whole, parts))
    assert one == two


def test_a_run_of_something_else_is_refused():
    us.simulate(net, DATA, **SMALL, out="r")
    with pytest.raises(RunError, match="differs in: rounds"):
        us.simulate(net, DATA, **{**SMALL, "rounds": 5}, out="r")
    with pytest.raises(RunError, match="resumed with the data"):
        us.simulate(net, (X[:90] / 2, *DATA[1:]), **SMALL, out="r")
    us.simulate(net(), DATA, **SMALL, out="s")
    with pytest.raises(RunError, match="Pass a function that makes the model"):
        us.simulate(net(), DATA, **SMALL, out="s")  # drawn anew


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"seeds": 3}, ConfigError, r"`seeds` should be a list, such as \[0, 1, 2\] or range"),
        ({"seeds": []}, ConfigError, "`seeds` should be a list of different whole numbers"),
        ({"rounds": 0}, ConfigError, "`rounds` should be at least 1. Found 0"),
        ({"rounds": 2.5}, ConfigError, "`rounds` should be a whole number. Found 2.5"),
        ({"methods": "convert"}, ConfigError, "`methods` should be a list"),
        ({"methods": ["convrt"]}, UnknownNameError, "Did you mean 'convert'"),
        ({"methods": ["drop", "drop"]}, ConfigError, "label of its own. Found 'drop' twice"),
        ({"methods": [5]}, ConfigError, "a compensator such as"),
        ({"methods": [{"name": "drop", "tune": {"max_staleness": [1]}}]}, ConfigError, "--tune"),
        ({"clients": None}, ConfigError, "`clients` should say who holds which samples"),
        ({"clients": 91}, ConfigError, "from 1 to the number of training samples, 90. Found 91"),
        ({"clients": "iids"}, UnknownNameError, "`clients` .*Did you mean 'iid'"),
        ({"clients": us.Iid}, ConfigError, r"`clients` should be an object.*Write Iid\("),
        ({"clients": 2.5}, ConfigError, "`clients` should be a number, .*Found float"),
        ({"clients": [[0], [0]]}, DataError, "Found sample 0 twice"),
        ({"clients": {"kind": "iid", "client": 3}}, UnknownNameError, "Did you mean 'clients'"),
        ({"slow": 5}, ConfigError, "`slow` should say who is late"),
        ({"slow": {9: 4}}, ConfigError, "clients from 0 to 5. Found 9"),
        ({"slow": {"classes": [7]}}, ConfigError, "number from 0 to 2. Found 7"),
        ({"local": {"lrate": 1}}, UnknownNameError, "Did you mean 'lr'"),
        ({"evaluate": {"affected": [4]}}, ConfigError, "classes from 0 to 2"),
        ({"progress": 5}, ConfigError, "`progress` should be True, False"),
        ({"name": "a b"}, ConfigError, "`name` should be 1 to 64 letters"),
    ],
)
def test_wrong_arguments(change, error, message, tmp_path):
    with pytest.raises(error, match=message):
        us.simulate(net, DATA, **{**SMALL, **change})
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("model", [None, 5, ["mlp"]])
def test_wrong_models(model):
    with pytest.raises(ConfigError, match=r"`model` should be an nn\.Module"):
        us.simulate(model, DATA, **SMALL)


@pytest.mark.parametrize(
    "optimizer",
    ["fedavgm", {"name": "fedavgm", "momentum": 0.9}, us.FedAvgM()],
    ids=["name", "table", "object"],
)
def test_a_server_optimizer_in_three_forms(optimizer, tmp_path):
    found = us.simulate(net, DATA, **SMALL, optimizer=optimizer, out=tmp_path / "moved")
    assert config_of(found)["optimizer"] == {"name": "fedavgm", "lr": 1.0, "momentum": 0.9}
    again = us.simulate(net, DATA, **SMALL, optimizer="fedavgm", out=tmp_path / "moved")
    assert again.table() == found.table(), "the same settings: the run is read"
    plain = us.simulate(net, DATA, **SMALL, out=tmp_path / "plain")
    assert final_of(plain) != final_of(found)
    assert "optimizer" not in config_of(plain)


def final_of(found):
    place = RunFolder(found.folder).checkpoints_path("unweighted", 0)
    return (place / "final.safetensors").read_bytes()


class Half:
    """A server optimizer of one's own, which goes half as far."""

    def init(self):
        return {}

    def move(self, params, change, state):
        from unstale.methods.server_optimizers import Moved
        from unstale.params import add

        return Moved(add(params, change, 0.5), state)


def test_a_server_optimizer_of_ones_own(tmp_path):
    found = us.simulate(net, DATA, **SMALL, optimizer=Half(), out=tmp_path / "half")
    assert config_of(found)["optimizer"] == {"name": "given", "is": "Half"}
    methods = {"unweighted": us.method("unweighted", server_lr=0.5)}
    wanted = us.simulate(net, DATA, **{**SMALL, "methods": methods}, out=tmp_path / "rate")
    assert final_of(found) == final_of(wanted)


def test_sinks_get_every_round():
    class Kept:
        def __init__(self):
            self.rounds = []

        def open(self, run):
            assert run.settings["method"]["label"] == "unweighted"
            return self

        def write(self, round, scalars):
            self.rounds.append((round, scalars["accuracy/all"]))

        def close(self, summary):
            self.summary = summary

    sink = Kept()
    found = us.simulate(net, DATA, **SMALL, sinks=[sink])
    assert sink.rounds == [(line.number, line.accuracy) for line in found.rounds("unweighted")]
    assert sink.summary["summary/accuracy"] == found.methods["unweighted"]["accuracy"]
    with pytest.raises(UnknownNameError, match="wandb"):
        us.simulate(net, DATA, **SMALL, sinks=["wandbb"])


class Words(nn.Module):
    """A plain model of token ids, as anybody writes it."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 4)
        self.fc = nn.Linear(4, 3)

    def forward(self, tokens):
        return self.fc(self.words(tokens).mean(1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_integer_inputs_of_a_plain_model_are_converted(dtype):
    tokens = (torch.arange(120 * 5).reshape(120, 5) % 4 + 4 * Y[:, None]).to(dtype)
    texts = (tokens[:90], Y[:90], tokens[90:], Y[90:])
    found = us.simulate(
        Words,
        texts,
        clients=us.OneClass(6, samples=10),
        slow={0: 2},
        methods=["unweighted", "convert"],
        rounds=5,
        local=us.LocalSpec(lr=0.5, epochs=2),
        progress=False,
    )
    assert found.methods["convert"]["conversions"] > 0
    assert found.methods["unweighted"]["conversions"] == 0


def test_an_empty_folder_name_is_refused():
    with pytest.raises(ConfigError, match="`out` should be a folder"):
        us.simulate(net, DATA, **SMALL, out="")


def test_threads_are_one_unless_given():
    for given, wanted in (({}, 1), ({"threads": 2}, 2)):
        found = us.simulate(net, DATA, **SMALL, **given)
        environment = json.loads((found.folder / "environment.json").read_text())
        assert environment["threads"] == wanted
