import pytest
import torch

from unstale.check.clients import clients_of, random_examples
from unstale.errors import ConfigError
from unstale.inversion import InputSpec

INPUTS = InputSpec((3,), classes=4, low=0.0, high=1.0)


def examples(count=200):
    x = torch.rand(count, 3, generator=torch.Generator().manual_seed(0))
    return x, torch.arange(count) % 4


def test_one_data_set_is_split_into_mixes_that_differ():
    x, y = examples()
    clients = clients_of((x, y), inputs=INPUTS, clients=5, seed=0)
    assert [len(c.x) for c in clients] == [20] * 5  # half of it, five times
    rows = {tuple(row.tolist()): int(label) for row, label in zip(x, y, strict=True)}
    held = [tuple(row.tolist()) for c in clients for row in c.x]
    assert len(set(held)) == len(held)
    assert all(
        rows[tuple(r.tolist())] == int(k) for c in clients for r, k in zip(c.x, c.y, strict=True)
    )
    shares = [torch.bincount(c.y, minlength=4).max() / len(c.y) for c in clients]
    assert max(shares) > 0.5  # far from a quarter each
    again, other = (clients_of((x, y), inputs=INPUTS, clients=5, seed=s) for s in (0, 1))
    assert all(torch.equal(a.x, b.x) for a, b in zip(clients, again, strict=True))
    assert not all(torch.equal(a.x, b.x) for a, b in zip(clients, other, strict=True))


def test_at_most_a_hundred_samples_unless_told():
    assert len(clients_of(examples(2000), inputs=INPUTS, clients=2)[0].x) == 100
    assert len(clients_of(examples(2000), inputs=INPUTS, clients=2, samples=700)[0].x) == 700


def test_data_per_client_is_taken_as_it_is():
    data = [examples(10), examples(30)]
    clients = clients_of(data, inputs=INPUTS, clients=8)
    assert [len(c.x) for c in clients] == [10, 30]
    assert torch.equal(clients[1].x, data[1][0])
    assert [len(c.y) for c in clients_of(data, inputs=INPUTS, samples=20)] == [10, 20]


@pytest.mark.parametrize(
    "inputs",
    [
        INPUTS,
        InputSpec((2, 5), classes=3, low=-1.0, high=1.0),
        InputSpec((2, 5), classes=3, low=-0.42, high=2.82),
        InputSpec((4,), classes=3),
        InputSpec((4,), classes=3, low=0.0),
    ],
    ids=str,
)
def test_random_data_has_the_shape_the_bounds_and_something_to_learn(inputs):
    classes = torch.arange(600) % inputs.classes
    x, y = random_examples(inputs, classes, seed=3)
    assert tuple(x.shape) == (600, *inputs.shape)
    assert torch.equal(inputs.clamp(x), x)
    assert y is classes
    # The class centres of one half tell the classes of the other.
    half = {k: x[:300][y[:300] == k].flatten(1).mean(0) for k in range(inputs.classes)}
    far = torch.stack([(x[300:].flatten(1) - c).norm(dim=1) for c in half.values()], 1)
    right = float((far.argmin(1) == y[300:]).double().mean())
    assert right > 1.3 / inputs.classes
    assert torch.equal(random_examples(inputs, classes, seed=3)[0], x)
    assert not torch.equal(random_examples(inputs, classes, seed=4)[0], x)


def test_random_clients():
    clients = clients_of(None, inputs=INPUTS, clients=3)
    assert [len(c.x) for c in clients] == [40] * 3
    assert [len(c.x) for c in clients_of(None, inputs=INPUTS, clients=3, samples=7)] == [7] * 3


X, Y = examples(8)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ((X[:0], Y[:0]), r"at least one sample\. Found inputs \(0, 3\)"),
        ((X, Y[:5]), r"one label for each input"),
        ((X, torch.nn.functional.one_hot(Y).float()), r"labels \(8, 4\)"),
        ((X[:, :2], Y), r"shape \(3,\), as `inputs` says\. Found \(2,\)"),
        ((X.long(), Y), r"floating-point inputs and whole labels"),
        ((X, Y.float()), r"floating-point inputs and whole labels"),
        ((X, Y + 1), r"labels from 0 to 3\. Found 1 to 4"),
        ((X, Y - 1), r"labels from 0 to 3\. Found -1 to 2"),
        ((X * 2, Y), r"within the bounds of `inputs`, 0.0 to 1.0"),
        ((X * float("nan"), Y), r"within the bounds"),
        ([(X, Y), (X[:, :2], Y)], r"The data of client 1 should have inputs of the shape"),
        ([(X, Y), (X[:0], Y[:0])], r"The data of client 1 .* at least one sample"),
        ([X, Y, X], r"Found Tensor at place 0"),
        ([(X, Y), (X.numpy(), Y)], r"Found tuple at place 1"),
    ],
)
def test_data_that_is_not_as_described(data, match):
    with pytest.raises(ConfigError, match=match):
        clients_of(data, inputs=INPUTS, clients=2)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"clients": 0}, "`clients` should be a positive integer"),
        ({"samples": 0}, "`samples` should be a positive integer"),
        ({"samples": 2.5}, "`samples` should be a positive integer"),
        ({"clients": 9}, "9 × 1 = 9 samples. Found 8"),
        ({"clients": 2, "samples": 5}, "2 × 5 = 10 samples. Found 8"),
    ],
)
def test_too_little_data(settings, match):
    with pytest.raises(ConfigError, match=match):
        clients_of((X, Y), inputs=INPUTS, **settings)


def test_bounds_that_were_rounded():
    inputs = InputSpec((3,), classes=4, low=0.0, high=0.1)
    x = torch.full((8, 3), 0.1)  # above 0.1 in double precision
    assert len(clients_of((x, Y), inputs=inputs, clients=2)) == 2
