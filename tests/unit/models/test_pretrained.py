"""Loading weights that others have trained, from files that others have written."""

import pickle
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from unstale import models
from unstale.errors import ConfigError, UnknownNameError
from unstale.models import freeze, load_weights, read_weights, weight_files


def mlp(classes: int = 3, seed: int = 0) -> nn.Module:
    return models.build("mlp", (2,), classes, hidden=[4], seed=seed)


def frozen_resnet(classes: int, **settings) -> nn.Module:
    return models.build("resnet18", (3, 8, 8), classes, widths=[4, 4, 8, 8], **settings)


def save(tensors, path) -> None:
    if path.suffix == ".npz":
        np.savez(path, **{name: t.numpy() for name, t in tensors.items()})
    elif path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)


@pytest.fixture
def file_of(tmp_path):
    """Return a file with these tensors."""

    def write(tensors, name: str = "net.safetensors"):
        save(tensors, tmp_path / name)
        return tmp_path / name

    return write


class Runs:
    """A pickle that runs code when it is read."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".pt", ".pth"])
def test_every_format_gives_the_same_weights(ending: str, file_of) -> None:
    trained, ours = mlp(seed=1), mlp(seed=2)
    path = file_of(trained.state_dict(), f"net{ending}")
    loaded = load_weights(ours, path)
    for name, value in trained.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)
    assert (loaded.file, loaded.initial, loaded.unused) == (f"net{ending}", (), ())
    assert loaded.taken == ("1.weight", "1.bias", "3.weight", "3.bias")


def test_a_state_dict_in_a_checkpoint_of_torch(tmp_path) -> None:
    torch.save({"epoch": 3, "state_dict": mlp(seed=1).state_dict()}, tmp_path / "net.pt")
    assert set(read_weights(tmp_path / "net.pt")) == set(mlp().state_dict())


def test_a_head_for_other_classes_keeps_its_initial_values(file_of) -> None:
    trained, ours, untouched = mlp(20, seed=1), mlp(3, seed=2), mlp(3, seed=2)
    loaded = load_weights(ours, file_of(trained.state_dict()))
    assert torch.equal(ours[1].weight, trained[1].weight)
    assert torch.equal(ours[3].weight, untouched[3].weight)
    assert torch.equal(ours[3].bias, untouched[3].bias)
    assert loaded.initial == ("3.weight", "3.bias")
    assert loaded.unused == ("3.bias", "3.weight")
    says = "2 tensors taken over. Initial values, from the seed: 3.weight, 3.bias."
    assert str(loaded) == f"Weights of net.safetensors: {says}"


def test_half_a_head_is_none(file_of) -> None:
    ours, untouched = mlp(seed=2), mlp(seed=2)
    tensors = {n: t for n, t in mlp(seed=1).state_dict().items() if n != "3.bias"}
    assert load_weights(ours, file_of(tensors)).initial == ("3.weight", "3.bias")
    assert torch.equal(ours[3].weight, untouched[3].weight)


def test_another_head_by_name(file_of) -> None:
    tensors = {n: t for n, t in mlp(seed=1).state_dict().items() if n.startswith("3")}
    path = file_of(tensors)
    with pytest.raises(ConfigError, match=r"Not in the file: 1.weight, 1.bias"):
        load_weights(mlp(), path)
    assert load_weights(mlp(), path, head="1").taken == ("3.weight", "3.bias")
    with pytest.raises(UnknownNameError, match="`head`"):
        load_weights(mlp(), path, head="fc")


def test_what_does_not_fit_is_listed_and_nothing_is_set(file_of) -> None:
    ours, untouched = mlp(seed=2), mlp(seed=2)
    tensors = mlp(seed=1).state_dict()
    tensors["1.weight"] = torch.zeros(4, 9)
    tensors["conv.weight"] = tensors.pop("1.bias")
    with pytest.raises(ConfigError) as error:
        load_weights(ours, file_of(tensors))
    assert "net.safetensors should be those of the model" in str(error.value)
    assert "- Not in the file: 1.bias\n- Not in the model: conv.weight\n" in str(error.value)
    assert "1.weight float32 [4, 9] instead of float32 [4, 2]" in str(error.value)
    for name, value in untouched.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.full((4,), float("nan")), "Not finite.*1.bias"),
        (torch.full((4,), float("inf")), "Not finite.*1.bias"),
        (torch.zeros(4, dtype=torch.int64), "1.bias int64"),
    ],
)
def test_bad_values_are_refused(value, says: str, file_of) -> None:
    with pytest.raises(ConfigError, match=says):
        load_weights(mlp(), file_of({**mlp().state_dict(), "1.bias": value}))


def test_weights_of_another_precision_are_converted(file_of) -> None:
    tensors = {n: t.double() for n, t in mlp(seed=1).state_dict().items()}
    ours = mlp()
    load_weights(ours, file_of(tensors))
    assert ours[1].weight.dtype == torch.float32
    assert torch.equal(ours[1].weight, mlp(seed=1)[1].weight)


class TestBatchNorm:
    def test_statistics_are_taken_over_and_counters_are_not(self, batch_norm_net, file_of) -> None:
        theirs = batch_norm_net(classes=9)
        ours = frozen_resnet(5, norm="frozen")
        loaded = load_weights(ours, file_of(theirs.state_dict()))
        assert loaded.initial == ("fc.weight", "fc.bias")
        counters = [n for n in theirs.state_dict() if n.endswith("num_batches_tracked")]
        assert set(loaded.unused) == {*counters, "fc.weight", "fc.bias"}
        assert "40 of them fixed statistics of BatchNorm" in str(loaded)
        expected = theirs.layer3[0].downsample[1].running_var.float()
        assert torch.equal(ours.layer3[0].downsample[1].running_var, expected)

    def test_group_norm_does_not_take_them(self, batch_norm_net, file_of) -> None:
        path = file_of(batch_norm_net().state_dict())
        with pytest.raises(ConfigError, match=r"has GroupNorm.*norm = \"frozen\"") as error:
            load_weights(frozen_resnet(5, groups=2), path)
        assert "norm1.running_mean, norm1.running_var, " in str(error.value)
        assert "and 34 more" in str(error.value)

    def test_a_negative_variance_is_refused(self, batch_norm_net, file_of) -> None:
        tensors = batch_norm_net().state_dict()
        tensors["layer1.0.bn2.running_var"][1] = -0.1
        with pytest.raises(ConfigError, match=r"negative variance: layer1.0.norm2.running_var"):
            load_weights(frozen_resnet(5, norm="frozen"), file_of(tensors))

    def test_a_name_in_both_forms_is_refused(self, batch_norm_net, file_of) -> None:
        tensors = batch_norm_net().state_dict()
        tensors["norm1.weight"] = tensors["bn1.weight"].clone()
        with pytest.raises(ConfigError, match="every tensor once"):
            load_weights(frozen_resnet(5, norm="frozen"), file_of(tensors))

    def test_weights_of_our_own_go_back(self, file_of) -> None:
        trained, ours = frozen_resnet(5, groups=2, seed=1), frozen_resnet(5, groups=2, seed=2)
        assert load_weights(ours, file_of(trained.state_dict())).initial == ()
        assert torch.equal(ours.layer4[1].conv2.weight, trained.layer4[1].conv2.weight)


class TestHostileFiles:
    def test_a_pickle_runs_nothing(self, tmp_path) -> None:
        trace = tmp_path / "it-ran"
        torch.save({"1.weight": Runs(trace)}, tmp_path / "new.pt")
        (tmp_path / "old.pt").write_bytes(pickle.dumps(Runs(trace)))
        torch.save(
            {"w": Runs(trace)}, tmp_path / "legacy.pth", _use_new_zipfile_serialization=False
        )
        np.savez(tmp_path / "objects.npz", w=np.array([Runs(trace)], dtype=object))
        trace.unlink(missing_ok=True)
        for name in ("new.pt", "old.pt", "legacy.pth", "objects.npz"):
            with pytest.raises(ConfigError, match="tensors by name and nothing else"):
                read_weights(tmp_path / name)
        assert not trace.exists()

    def test_the_old_format_of_torch_is_refused(self, tmp_path) -> None:
        path = tmp_path / "legacy.pt"
        torch.save(mlp().state_dict(), path, _use_new_zipfile_serialization=False)
        with pytest.raises(ConfigError, match="BadZipFile"):
            read_weights(path)

    @pytest.mark.parametrize("ending", [".safetensors", ".npz", ".pt"])
    def test_damaged_and_missing_files(self, ending: str, file_of, tmp_path) -> None:
        path = file_of(mlp().state_dict(), f"net{ending}")
        whole = path.read_bytes()
        for content in (b"", whole[:40], whole[: len(whole) // 2], whole[::-1]):
            path.write_bytes(content)
            with pytest.raises(ConfigError, match="should hold tensors by name"):
                read_weights(path)
        with pytest.raises(ConfigError, match="readable weights file"):
            read_weights(tmp_path / f"none{ending}")

    def test_an_archive_that_is_too_large(self, file_of, monkeypatch) -> None:
        path = file_of(mlp().state_dict(), "net.npz")
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        monkeypatch.setattr(weight_files, "MAX_BYTES", size - 1)
        with pytest.raises(ConfigError, match="bytes, more than"):
            read_weights(path)
        monkeypatch.setattr(weight_files, "MAX_BYTES", size)
        assert len(read_weights(path)) == 4

    @pytest.mark.parametrize("content", [[1, 2], {"w": "text"}, {3: torch.zeros(1)}, {}])
    def test_other_content_of_torch(self, content, tmp_path) -> None:
        torch.save(content, tmp_path / "net.pt")
        with pytest.raises(ConfigError, match="tensors by name"):
            read_weights(tmp_path / "net.pt")

    def test_another_ending(self, tmp_path) -> None:
        with pytest.raises(ConfigError, match=r"\.safetensors, \.npz, \.pt, \.pth"):
            read_weights(tmp_path / "net.pkl")


class TestFreeze:
    def test_parts_by_name(self) -> None:
        model = frozen_resnet(5, norm="frozen")
        freeze(model, ["conv1", "layer1", "layer2.0.conv1", "fc.bias"])
        left = {n for n, p in model.named_parameters() if p.requires_grad}
        assert "norm1.weight" in left
        assert "layer2.0.conv2.weight" in left
        assert "fc.weight" in left
        assert not left & {"conv1.weight", "layer2.0.conv1.weight", "fc.bias"}
        assert not any(n.startswith("layer1.") for n in left)

    def test_a_part_that_is_not_there(self) -> None:
        model = frozen_resnet(5, norm="frozen")
        with pytest.raises(UnknownNameError, match="Did you mean 'layer1'"):
            freeze(model, ["conv1", "lyer1"])
        assert all(p.requires_grad for p in model.parameters())

    def test_something_is_left_to_train(self) -> None:
        with pytest.raises(ConfigError, match="left to train"):
            freeze(mlp(), ["1", "3"])
