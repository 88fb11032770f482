"""Experiments with pretrained weights and frozen parts."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from unstale import models
from unstale.cli.progress import LiveProgress
from unstale.errors import ConfigError, ModelError, RunError
from unstale.experiment import check_experiment, load_experiment, parse
from unstale.experiment.model import find_weights
from unstale.models.registry import BUILDERS
from unstale.run_folder import RunFolder
from unstale.run_folder.keep import keep_run


def trained(classes=6, seed=9):
    return models.build("mlp", (3,), classes, hidden=[4], seed=seed).state_dict()


@pytest.fixture
def root(tmp_path):
    """A data root with a weights file, of a network for six classes."""
    (tmp_path / "root").mkdir()
    save_file(trained(), tmp_path / "root" / "net.safetensors")
    return tmp_path / "root"


@pytest.fixture
def pretrained(table):
    """The experiment with these weights, the first layer frozen."""
    table["model"] |= {"weights": "net.safetensors", "freeze": ["1"]}
    table |= {"rounds": 2, "seeds": [0]}
    return table


def final(folder, label="unweighted"):
    return load_file(folder.checkpoints_path(label, 0) / "final.safetensors")


def test_a_run_starts_from_the_weights_and_leaves_frozen_parts(run_tiny, pretrained, root):
    folder = run_tiny("a", table=pretrained, data_root=str(root))
    for label in ("unweighted", "taylor"):
        found = {name.rpartition("/")[2]: t for name, t in final(folder, label).items()}
        weights = [t for name, t in found.items() if name.endswith("1.weight")]
        assert len(weights) == 1
        assert torch.equal(weights[0], trained()["1.weight"])
    said = json.loads(folder.weights_path.read_text())
    assert said["file"] == "net.safetensors"
    assert said["initial"] == ["3.weight", "3.bias"]
    assert said["taken"] == 2
    assert str(root) not in folder.weights_path.read_text() + folder.config_path.read_text()


def test_a_run_is_resumed_with_the_same_weights_only(run_tiny, pretrained, root, recorder):
    pretrained["rounds"] = 6
    whole = run_tiny("whole", table=pretrained, data_root=str(root))
    with pytest.raises(KeyboardInterrupt):
        run_tiny(
            "a", table=pretrained, data_root=str(root), checkpoint_seconds=0,
            progress=recorder(stop_after=3),
        )  # fmt: skip
    save_file(trained(seed=8), root / "net.safetensors")
    with pytest.raises(RunError, match="resumed with the weights it began with"):
        run_tiny("a", table=pretrained, data_root=str(root))
    save_file(trained(), root / "net.safetensors")
    again = run_tiny("a", table=pretrained, data_root=str(root))
    for name, value in final(whole).items():
        assert torch.equal(final(again)[name], value)


def test_weights_are_kept_and_said(run_tiny, pretrained, root, tmp_path, capsys):
    from rich.console import Console

    console = Console(record=True, width=300, force_terminal=False)
    with LiveProgress(console) as progress:
        folder = run_tiny("a", table=pretrained, data_root=str(root), progress=progress)
    assert "Weights of net.safetensors: 2 tensors taken over." in console.export_text()
    kept = RunFolder(keep_run(folder, tmp_path / "kept"))
    assert kept.weights_path.read_bytes() == folder.weights_path.read_bytes()


def test_without_weights_nothing_is_written(run_tiny, table):
    table |= {"rounds": 1, "seeds": [0]}
    folder = run_tiny("a", table=table)
    assert not folder.weights_path.exists()
    assert json.loads(folder.config_path.read_text())["model"] == {"name": "mlp", "hidden": [4]}


def test_no_folder_for_weights_that_are_missing_or_do_not_fit(run_tiny, pretrained, root, tmp_path):
    with pytest.raises(ConfigError, match=r"`model.weights` should name a file.*net.safetensors"):
        run_tiny("a", table=pretrained, data_root=str(tmp_path))
    save_file({"other": torch.zeros(2)}, root / "net.safetensors")
    with pytest.raises(ConfigError, match="Not in the model: other"):
        run_tiny("a", table=pretrained, data_root=str(root))
    assert not (tmp_path / "a").exists()


@pytest.mark.usefixtures("_clouds")
def test_a_check_takes_the_weights(pretrained, root, monkeypatch):
    seen = {}

    def stop(model, **arguments):
        seen["model"] = model
        raise KeyboardInterrupt

    monkeypatch.setattr("unstale.experiment.check.check_conversion", stop)
    with pytest.raises(KeyboardInterrupt):
        check_experiment(parse(pretrained), clients=4, conversions=2, data_root=str(root))
    assert torch.equal(seen["model"][1].weight, trained()["1.weight"])
    assert not seen["model"][1].weight.requires_grad


def test_where_a_file_is_looked_for(root, tmp_path, monkeypatch):
    assert find_weights("net.safetensors", str(root)) == root / "net.safetensors"
    assert find_weights(str(root / "net.safetensors")) == root / "net.safetensors"
    monkeypatch.setenv("UNSTALE_DATA", f"{tmp_path}:{root}")
    assert find_weights("net.safetensors") == root / "net.safetensors"
    with pytest.raises(ConfigError, match=r"none at .*/nets/a.npz, .*/root/nets/a.npz"):
        find_weights("nets/a.npz")


def test_a_file_beside_the_experiment_comes_first(tmp_path):
    text = 'rounds = 1\n[data]\nname = "digits"\n[model]\nname = "digits"\nweights = "net.npz"\n'
    (tmp_path / "my.toml").write_text(text + '[[methods]]\nname = "drop"\n')
    assert load_experiment(tmp_path / "my.toml").weights == "net.npz"
    (tmp_path / "net.npz").touch()
    assert load_experiment(tmp_path / "my.toml").weights == str(tmp_path.resolve() / "net.npz")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"weights": 3}, "`model.weights` should be a text"),
        ({"freeze": "layer1"}, "`model.freeze` should be a list"),
        ({"freeze": [1]}, r"`model.freeze\[0\]` should be a text"),
        ({"fix": "yes"}, "`model.fix` should be true or false"),
    ],
)
def test_wrong_values(model, says, table):
    table["data"]["name"] = "digits"
    table["model"] |= model
    with pytest.raises(ConfigError, match=says):
        parse(table)


def test_round_trip(table):
    table["data"]["name"] = "digits"
    table["model"] |= {"weights": "net.npz", "freeze": ["1", "3.bias"]}
    config = parse(table)
    assert (config.weights, config.freeze) == ("net.npz", ("1", "3.bias"))
    assert config.model_settings == {"hidden": [4]}
    assert parse(json.loads(json.dumps(config.to_json()))) == config


def normalised(input_shape, num_classes):
    return nn.Sequential(
        nn.Linear(input_shape[0], 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, num_classes)
    )


def test_a_model_is_fixed_with_its_weights_in_it(run_tiny, table, root, monkeypatch, caplog):
    monkeypatch.setitem(BUILDERS, "normalised", normalised)
    torch.manual_seed(1)
    trained = normalised((3,), 4)
    save_file(trained.state_dict(), root / "normalised.safetensors")
    given = {"name": "normalised", "weights": "normalised.safetensors", "freeze": ["0", "1"]}
    table |= {"rounds": 4, "seeds": [0], "methods": ["unweighted", "convert"]}
    with pytest.raises(ModelError, match="running statistics"):
        run_tiny("as it is", table={**table, "model": given}, data_root=str(root))
    folder = run_tiny(
        "fixed", table={**table, "model": {**given, "fix": True}}, data_root=str(root)
    )
    said = [record.message for record in caplog.records if "made these changes" in record.message]
    assert len(said) == 1, "once for the run, not for every method"
    assert "`1`: BatchNorm1d of 8 channels → GroupNorm of 1 group" in said[0]
    for label in ("unweighted", "convert"):
        found = {name.rpartition("/")[2]: t for name, t in final(folder, label).items()}
        assert torch.equal(found["0.weight"], trained[0].weight)
        assert torch.equal(found["1.weight"], trained[1].weight)
        assert not any("running" in name for name in found)
    assert json.loads(folder.config_path.read_text())["model"]["fix"] is True
