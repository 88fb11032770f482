"""Checkpoints: exact, checked, and never worse off for a crash or a damaged file."""

import json
import logging

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import CheckpointError
from unstale.server.checkpoint import KEPT, Checkpoints, exists, load_tensors

RNG = torch.Generator().manual_seed(0)
SHARED = torch.arange(6.0)
TREE = {
    "numbers": [1, -(2**70), 0.1, 1e-308, True, None, "τ", ""],
    "tensors": {
        "f32": torch.randn(3, generator=RNG),
        "f64": torch.randn(2, 2, generator=RNG, dtype=torch.float64),
        "bf16": torch.randn(5, generator=RNG).bfloat16(),
        "int": torch.tensor([1, -(2**60)]),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        "special": torch.tensor([float("nan"), float("inf"), -0.0]),
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "shared": [SHARED, SHARED, SHARED[2:4]],
    },
    # Clients choose their names: none may be mistaken for a separator or a mark.
    "hostile": {
        "a/b": torch.tensor([1.0]),
        "a": {"b": torch.tensor([2.0])},
        "$tensor": 0,
        "$$tensor": {"$": [], "$tensor": torch.tensor([3.0])},
        "__tensor__": "x",
        "__metadata__": torch.tensor([4.0]),
        "": {"": torch.tensor([5.0])},
    },
}


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and torch.equal(torch.signbit(one.double()), torch.signbit(other.double()))
            and torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)
        )
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


def reader(value):
    return lambda: {"w": torch.full((3,), float(value))}


def test_a_tree_of_anything_comes_back_exactly(tmp_path):
    Checkpoints(tmp_path).write(TREE, {7: reader(7)})
    tree, versions = Checkpoints(tmp_path).read()
    assert equal(tree, TREE)
    assert versions[7]()["w"].tolist() == [7.0] * 3
    assert exists(tmp_path)
    assert not exists(tmp_path / "versions")


def test_a_tensor_in_several_places_is_stored_once_and_shared_again(tmp_path):
    tree = {"a": SHARED, "b": [SHARED, SHARED.clone()]}
    path = Checkpoints(tmp_path).write(tree, {})
    assert len(load_tensors(path.with_suffix(".safetensors"))) == 2
    found = Checkpoints(tmp_path).read()[0]
    assert equal(found, tree)
    assert found["a"] is found["b"][0]
    assert found["b"][1].data_ptr() != found["a"].data_ptr()


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), torch.nn.Linear(1, 1), {1, 2}])
def test_what_cannot_be_written_is_refused_and_the_old_one_stays(tmp_path, value):
    Checkpoints(tmp_path).write({"x": 1}, {})
    with pytest.raises(CheckpointError, match="/x"):
        Checkpoints(tmp_path).write({"x": value}, {})
    assert Checkpoints(tmp_path).read()[0] == {"x": 1}


def test_a_client_of_any_name_can_be_saved(tmp_path):
    server = us.Server(nn.Linear(2, 1), method="asyn_tiers")
    names = ["__tensor__", "$tensor", "a/b", "../../x", "\x00", "τ", "__proto__"]
    zeros = {n: torch.zeros_like(p) for n, p in server.params.items()}
    for name in names:
        server.register(name)
        server.check_out(name)
        assert server.submit(us.Update(name, 0, zeros, 1)).accepted
    server.step()
    server.check_out("$tensor")
    server.save(tmp_path)
    loaded = us.Server.load(tmp_path)
    assert loaded.to_tree()[0]["tickets"] == server.to_tree()[0]["tickets"]
    assert loaded.to_tree()[0]["clients"] == server.to_tree()[0]["clients"]
    assert set(loaded.to_tree()[0]["clients"]["told"]) == set(names)


def files_of(path):
    return [path, *(path.parent / name for name in json.loads(path.read_text())["files"])]


def damage(path, how):
    content = path.read_bytes()
    if how == "delete":
        path.unlink()
    elif how == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flip":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
    else:
        path.write_bytes(b"null")


HOWS = ["delete", "truncate", "empty", "flip", "null"]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["json", "versions", "tensors"])
def test_a_damaged_newest_one_gives_way_to_the_one_before(tmp_path, caplog, how, which):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write({"x": 1, "t": torch.ones(3)}, {0: reader(0)})
    newest = checkpoints.write({"x": 2, "t": torch.ones(3)}, {5: reader(5)})
    damage(files_of(newest)[which], how)
    again = Checkpoints(tmp_path)
    with caplog.at_level(logging.WARNING):
        tree, versions = again.read()
    if how == "delete" and which == 0:  # then it is no checkpoint at all
        assert caplog.text == ""
    else:
        assert newest.name in caplog.text
    assert (tree["x"], list(versions)) == (1, [0])
    # The next ones are written and read as usual, and the sound one before stays until then.
    again.write({"x": 3}, {0: reader(0)})
    assert Checkpoints(tmp_path).read()[0] == {"x": 3}
    damage(again.write({"x": 4}, {0: reader(0)}), how)
    assert Checkpoints(tmp_path).read()[0] == {"x": 3}


@pytest.mark.parametrize("edit", [('"x": 2', '"x": 7'), ('"format": 3', '"format": 2')])
def test_a_tree_that_was_changed_by_hand_or_is_of_another_format_is_not_taken(tmp_path, edit):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write({"x": 1}, {})
    newest = checkpoints.write({"x": 2}, {})
    text = newest.read_text()
    assert edit[0] in text
    newest.write_text(text.replace(*edit))
    assert Checkpoints(tmp_path).read()[0] == {"x": 1}


def test_a_damaged_one_does_not_push_out_a_sound_one(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for x in (1, 2):
        path = checkpoints.write({"x": x}, {})
    damage(path, "flip")
    again = Checkpoints(tmp_path)
    assert again.read()[0] == {"x": 1}
    damage(again.write({"x": 3}, {}), "truncate")
    assert Checkpoints(tmp_path).read()[0] == {"x": 1}


@pytest.mark.parametrize("how", HOWS[1:])
def test_when_all_are_damaged_the_error_names_each(tmp_path, how):
    checkpoints = Checkpoints(tmp_path)
    paths = [checkpoints.write({"x": x}, {}) for x in range(KEPT)]
    for path in paths:
        damage(path, how)
    with pytest.raises(CheckpointError, match="All are damaged") as error:
        Checkpoints(tmp_path).read()
    assert all(path.name in str(error.value) for path in paths)


def test_a_version_that_all_need_and_is_damaged_is_named(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for x in range(2):
        path = checkpoints.write({"x": x}, {3: reader(3)})
    damage(files_of(path)[1], "flip")
    with pytest.raises(CheckpointError, match="versions/0000000003"):
        Checkpoints(tmp_path).read()


@pytest.mark.parametrize("place", ["", "nothing/here"])
def test_an_empty_or_missing_folder_is_a_clear_error(tmp_path, place):
    with pytest.raises(CheckpointError, match="Found none"):
        us.Server.load(tmp_path / place)
