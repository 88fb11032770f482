"""Data in the forms in which programs hold it."""

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import TensorDataset

from unstale import data
from unstale.errors import DataError

X = torch.arange(24, dtype=torch.float64).reshape(8, 3) / 24
Y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])


def test_tensors_and_arrays_give_the_same():
    one = data.from_arrays(X[:6], Y[:6], X[6:], Y[6:])
    two = data.as_dataset((X[:6].numpy(), Y[:6].numpy().astype(np.uint8), X[6:], Y[6:].tolist()))
    three = data.as_dataset(((X[:6], Y[:6]), (X[6:], Y[6:])))
    for other in (two, three):
        assert torch.equal(one.x_train, other.x_train)
        assert torch.equal(one.y_train, other.y_train)
        assert torch.equal(one.x_test, other.x_test)
    assert one.x_train.dtype == torch.float32
    assert (one.classes, one.low, one.high) == (("0", "1", "2"), 0.0, 1.0)


def test_a_data_set_is_returned_as_it_is():
    digits = data.load("digits")
    assert data.as_dataset(digits) is digits


def test_bytes_are_scaled_and_other_numbers_bound_themselves():
    pixels = np.array([[0, 255], [51, 102]], dtype=np.uint8)
    scaled = data.from_arrays(pixels, [0, 1], pixels, [0, 1])
    assert scaled.x_train.tolist() == [[0.0, 1.0], [pytest.approx(0.2), pytest.approx(0.4)]]
    wide = data.from_arrays(8 * X - 2, Y, X, Y)
    assert (wide.low, wide.high) == (-2.0, pytest.approx(8 * 23 / 24 - 2))
    assert data.from_arrays(X, Y, X, Y, bounds=(-1, 3)).high == 3.0
    constant = data.from_arrays(torch.full((2, 1), 5.0), [0, 1], torch.full((2, 1), 5.0), [0, 1])
    assert (constant.low, constant.high) == (5.0, 6.0)


def test_whole_numbers_are_token_ids():
    ids = torch.tensor([[1, 2], [0, 4]])
    text = data.from_arrays(ids, [0, 1], ids, [0, 1])
    assert text.vocabulary == ("0", "1", "2", "3", "4")
    assert text.x_train.dtype == torch.int64


def test_names_of_classes_and_users():
    found = data.from_arrays(
        X[:4], ["cat", "dog", "cat", "ant"], X[4:6], ["dog", "dog"], users=["z", "a", "z", "m"]
    )
    assert found.classes == ("ant", "cat", "dog")
    assert found.y_train.tolist() == [1, 2, 1, 0]
    assert found.users_train.tolist() == [2, 0, 2, 1]


def test_pytorch_data_sets():
    class Squares(TorchDataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return torch.full((1, 2, 2), i / 4), i % 2

    found = data.as_dataset(
        (Squares(), TensorDataset(torch.zeros(2, 1, 2, 2), torch.tensor([0, 1])))
    )
    assert found.input_shape == (1, 2, 2)
    assert found.y_train.tolist() == [0, 1, 0]
    assert found.x_train[2].unique().item() == 0.5


@pytest.mark.parametrize("form", ["list", "by id", "data sets"])
def test_what_each_client_holds(form):
    parts = [(X[:2], Y[:2]), (X[2:6], Y[2:6])]
    clients = {
        "list": parts,
        "by id": {"z": parts[0], "a": parts[1]},
        "data sets": [TensorDataset(*part) for part in parts],
    }[form]
    found = data.as_dataset((clients, (X[6:], Y[6:])))
    assert found.users_train.tolist() == [0, 0, 1, 1, 1, 1]  # in the order given, not sorted
    assert torch.equal(found.y_train, Y[:6])
    assert len(found.y_test) == 2


def test_index_lists_become_users_of_the_listed_samples():
    base = data.from_arrays(X, Y, X, Y)
    found = data.with_clients(base, {"b": np.array([7, 0]), "a": [3]})
    assert found.y_train.tolist() == [0, 0, 1]
    assert found.users_train.tolist() == [0, 1, 0]
    assert torch.equal(found.x_train, base.x_train[[0, 3, 7]])


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ([[0, 1], [1, 2]], "at most one client, once. Found sample 1 twice"),
        ([[0, 0]], "Found sample 0 twice"),
        ([[0], []], "Client 1 of `clients` should have a list of at least one index"),
        ([[0], [8]], "indices from 0 to 7.*Found 8 of client 1"),
        ([[-1]], "Found -1 of client 0"),
        ([[0.5]], "Found float64"),
        ([], "at least one client"),
    ],
)
def test_wrong_index_lists(clients, message):
    with pytest.raises(DataError, match=message):
        data.with_clients(data.from_arrays(X, Y, X, Y), clients)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((X, Y), "`data` should be .x_train, y_train, x_test, y_test.*Found tuple of length 2"),
        (X, "Found Tensor of length 8"),
        (7, "Found int"),
        ((X, Y, X, Y[:3]), "one input and one label per sample"),
        ((X, Y.float(), X, Y), "`y_train` should hold classes.*Found float32"),
        ((X, Y - 1, X, Y), "labels from 0"),
        ((X / 0, Y, X, Y), "`x_train` should hold finite numbers"),
        ((X, Y, X[:, :2], Y), "train and test inputs of one shape"),
        ((["a"] * 8, Y, X, Y), "Turn texts into token ids"),
        (([[1.0], [1.0, 2.0]], [0, 1], X, Y), "one shape"),
        ((torch.zeros(8, 3).int(), Y, X, Y), "should have one type"),
        (([(X, Y), (X[:0], Y[:0])], (X, Y)), "Client 1 should hold at least one sample"),
        (([(X, Y), (X[:, :2], Y)], (X, Y)), "inputs of one shape"),
        (([[1, 2, 3], TensorDataset(X, Y)], 5), "Found list|An item of the part"),
        ((TensorDataset(X), TensorDataset(X, Y)), "should be .input, label"),
    ],
)
def test_wrong_data(given, message):
    with pytest.raises(DataError, match=message):
        data.as_dataset(given)


def test_users_are_one_for_every_sample():
    with pytest.raises(DataError, match="one user for each of the 8"):
        data.from_arrays(X, Y, X, Y, users=[1, 2])
    with pytest.raises(DataError, match="Missing: b"):
        data.from_arrays(X[:2], ["a", "b"], X[:1], ["a"], classes=["a", "c"])
