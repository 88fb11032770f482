"""Functions of the user's own in an experiment file, and plugins."""

import json
import sys

import pytest
import torch

from unstale.errors import ConfigError, DataError, RunError, UnknownNameError
from unstale.experiment import RunFolder, load_data, load_experiment, parse, run_experiment
from unstale.experiment.importing import load_plugin
from unstale.methods import METHODS

MODULE = """
import torch
from torch import nn

SIZE = 90

def load(samples=SIZE, shift=0.0):
    rng = torch.Generator().manual_seed(1)
    y = torch.arange(samples) % 3
    x = torch.rand(samples, 4, generator=rng) / 2 + y[:, None] / 6 + shift
    return x[30:], y[30:], x[:30], y[:30]

def net(input_shape, num_classes, hidden=5):
    return nn.Sequential(nn.Linear(*input_shape, hidden), nn.Tanh(), nn.Linear(hidden, num_classes))

def fixed():
    return nn.Linear(4, 3)

def wide():
    return nn.Linear(5, 3)

def narrow():
    return nn.Linear(4, 2)

def needs(depth):
    return nn.Linear(4, 3)

def broken():
    raise KeyError("no file")

def nothing():
    return None
"""
TOML = """
rounds = 3
[data]
factory = "{module}:load"
samples = 60
[model]
factory = "{module}:net"
hidden = 4
[local]
lr = 0.1
[partition]
kind = "iid"
clients = 6
[latency]
kind = "constant"
rounds = 1
clients = [0]
[[methods]]
name = "unweighted"
"""
PLUGIN = """
from dataclasses import dataclass

from unstale.methods import Identity, MethodSpec, register

@dataclass(frozen=True)
class Plain(Identity):
    pass

register("{name}", MethodSpec("As they come.", "-", Plain), force=True)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """An experiment file with its module beside it; the module has a name of its own."""
    folder = tmp_path / "task"
    folder.mkdir()
    module = f"task_{tmp_path.name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(MODULE)
    (folder / "my.toml").write_text(TOML.format(module=module))
    monkeypatch.chdir(tmp_path)
    yield folder / "my.toml", module
    sys.modules.pop(module, None)


def test_functions_are_imported_from_the_folder_of_the_file(mine, tmp_path):
    path, module = mine
    before = list(sys.path)
    config = load_experiment(path)
    folder = RunFolder(tmp_path / "run")
    summary = run_experiment(config, folder)
    assert sys.path == before
    assert summary["methods"]["unweighted"]["accuracy"] > 0
    written = json.loads(folder.config_path.read_text())
    assert written["data"] == {"factory": f"{module}:load", "samples": 60}
    assert written["model"] == {"factory": f"{module}:net", "hidden": 4}
    assert parse(written).to_json() == config.to_json()
    own = json.loads(folder.own_path.read_text())
    assert (own["data"]["train"], own["model"]["parameters"]) == (30, 4 * 4 + 4 + 3 * 4 + 3)


def test_functions_are_imported_from_the_current_folder(mine, tmp_path, monkeypatch):
    path, _ = mine
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(path.read_text())
    monkeypatch.chdir(path.parent)
    assert load_data(load_experiment(elsewhere)).input_shape == (4,)


def test_initial_weights_depend_on_the_seed_alone(mine):
    from unstale.experiment.model import model_for

    config = load_experiment(mine[0])
    dataset = load_data(config)
    torch.manual_seed(1)
    one = model_for(config, dataset, 3)[0].state_dict()
    torch.manual_seed(2)
    two, other = (model_for(config, dataset, seed)[0].state_dict() for seed in (3, 4))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not torch.equal(one["0.weight"], other["0.weight"])


def test_a_run_goes_on_only_with_the_same_data(mine, tmp_path):
    path, module = mine
    folder = RunFolder(tmp_path / "run")
    run_experiment(load_experiment(path), folder)
    file = path.parent / f"{module}.py"
    file.write_text(MODULE.replace("manual_seed(1)", "manual_seed(2)"))
    del sys.modules[module]
    with pytest.raises(RunError, match=r"resumed with the data it began with.*other samples"):
        run_experiment(load_experiment(path), folder)


@pytest.mark.parametrize(
    ("override", "error", "message"),
    [
        ("data.factory=lode", ConfigError, "'module:function'.*Found 'lode'"),
        ("data.factory=none_such_module:load", ConfigError, "Found no 'none_such_module' in "),
        ("data.factory=MODULE:lod", UnknownNameError, "Did you mean 'load'"),
        ("data.factory=MODULE:SIZE", ConfigError, "should name a function.*which is a int"),
        ("data.factory=MODULE:nothing", ConfigError, "and no more. Found: got an unexpected"),
        ("data.samples=0", DataError, "at least one|one class for every sample"),
        ("data.shifts=1", ConfigError, "unexpected keyword argument 'shifts'"),
        ("data.name=digits", ConfigError, r"\[data\] should have a name or a factory. Found both"),
        ("model.factory=MODULE:needs", ConfigError, "unexpected|missing a required argument"),
        ("model.hiden=4", ConfigError, "unexpected keyword argument 'hiden'"),
    ],
)
def test_wrong_functions(mine, tmp_path, override, error, message):
    path, module = mine
    overrides = [override.replace("MODULE", module)]
    with pytest.raises(error, match=message):
        run_experiment(load_experiment(path, overrides=overrides), RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("fixed", None),
        ("wide", r"take the inputs of the data, of shape \(4,\).*mat1 and mat2"),
        ("narrow", r"each of the 3 classes: shape \(2, 3\) for 2 inputs. Found \(2, 2\)"),
        ("needs", "missing a required argument: 'depth'"),
        ("broken", "failed with KeyError: 'no file'"),
        ("nothing", "should return an nn.Module. Found NoneType"),
    ],
)
def test_models_of_any_form(mine, tmp_path, function, message):
    path, module = mine
    text = path.read_text().replace(f"{module}:net", f"{module}:{function}")
    path.write_text(text.replace("hidden = 4", ""))
    folder = RunFolder(tmp_path / "run")
    if message is None:
        run_experiment(load_experiment(path), folder)
        return
    with pytest.raises(ConfigError, match=message):
        run_experiment(load_experiment(path), folder)


def test_a_module_of_the_same_name_elsewhere_is_not_taken(mine, tmp_path):
    path, module = mine
    load_data(load_experiment(path))
    other = tmp_path / "other"
    other.mkdir()
    (other / f"{module}.py").write_text(MODULE)
    (other / "my.toml").write_text(path.read_text())
    with pytest.raises(ConfigError, match=r"has imported .* under that name. Rename the file"):
        load_data(load_experiment(other / "my.toml"))


def test_a_module_that_fails_is_said(mine):
    path, module = mine
    (path.parent / f"{module}.py").write_text("import none_such_library")
    with pytest.raises(ConfigError, match="needs 'none_such_library', which is not installed"):
        load_data(load_experiment(path))
    (path.parent / f"{module}.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match="failed with ZeroDivisionError"):
        load_data(load_experiment(path))


@pytest.fixture
def _methods_as_before():
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.usefixtures("_methods_as_before")
def test_plugins_register_methods(mine, tmp_path):
    path, _ = mine
    plugin = tmp_path / "my_plugin.py"
    plugin.write_text(PLUGIN.format(name="plain"))
    config = load_experiment(path, plugins=["my_plugin.py"], methods=["plain", "unweighted"])
    assert [m.name for m in config.methods] == ["unweighted", "plain"]
    assert config.plugins == (str(plugin),)
    summary = run_experiment(config, RunFolder(tmp_path / "run"))
    same = summary["methods"]
    assert same["plain"]["accuracy"] == same["unweighted"]["accuracy"]
    assert "plugins" not in json.loads((tmp_path / "run" / "config.json").read_text())
    assert load_plugin(plugin) is load_plugin(plugin)


def test_wrong_plugins(tmp_path):
    with pytest.raises(ConfigError, match=r"Found no such file: none.py"):
        load_plugin("none.py")
    (tmp_path / "bad.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match="Found ZeroDivisionError"):
        load_plugin(tmp_path / "bad.py")


def test_methods_may_be_any_registered_ones(mine):
    path, _ = mine
    config = load_experiment(path, methods=["drop", "unweighted", "weighted"])
    assert [m.label for m in config.methods] == ["unweighted", "drop", "weighted"]
    with pytest.raises(UnknownNameError, match=r"--methods .*Did you mean 'weighted'"):
        load_experiment(path, methods=["weihted"])
