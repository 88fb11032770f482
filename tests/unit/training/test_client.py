"""Client training of models with BatchNorm and dropout."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import unstale as us
from unstale.errors import ModelError
from unstale.seeding import generator
from unstale.training.client import averaged_statistics, client_update, statistics_of

SPEC = us.LocalSpec(lr=0.1, momentum=0.5, epochs=3, batch_size=8)


def net(drop=0.0):
    torch.manual_seed(0)
    layers = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(drop), nn.Linear(6, 3)
    return nn.Sequential(*layers).double()


@pytest.fixture
def data():
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(24, 4, generator=rng, dtype=torch.float64)
    return x, torch.arange(24) % 3


def start_of(model):
    return {**us.params_of(model), **statistics_of(model)}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


def test_batch_norm_is_trained_as_by_torch(data):
    x, y = data
    model = net()
    start = start_of(model)
    delta = client_update(model, start, x, y, SPEC, generator(3))
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.5)
    for index in SPEC.batches(24, generator(3)):
        optimizer.zero_grad()
        F.cross_entropy(trained(x[index]), y[index]).backward()
        optimizer.step()
    wanted = trained.state_dict()
    assert set(delta) == set(wanted)
    for name, change in delta.items():
        torch.testing.assert_close(start[name] + change, wanted[name])
    assert wanted["1.num_batches_tracked"] == 9
    assert torch.equal(model[1].running_mean, torch.zeros(6).double()), "the model is not changed"


def test_models_without_such_layers_train_as_before(data):
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    start = us.params_of(model)
    found = client_update(model, start, *data, SPEC, generator(3))
    assert same(found, us.local_update(model, start, *data, SPEC, generator(3)))


def test_dropout_draws_from_the_clients_generator_alone(data):
    model = net(drop=0.5)
    start = start_of(model)
    torch.manual_seed(11)
    first = client_update(model, start, *data, SPEC, generator(3))
    torch.manual_seed(12)
    before = torch.get_rng_state()
    again = client_update(model, start, *data, SPEC, generator(3))
    assert torch.equal(torch.get_rng_state(), before), "the global generator stays"
    assert same(first, again)
    assert not same(first, client_update(model, start, *data, SPEC, generator(4)))
    assert not same(first, client_update(net(), start, *data, SPEC, generator(3)))


class DropsFunctionally(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, self.training)


class Counts(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return super().forward(x)


def test_what_only_the_forward_pass_shows(data):
    model = DropsFunctionally(4, 3).double()
    start = us.params_of(model)
    first = client_update(model, start, *data, SPEC, generator(3))
    assert same(first, client_update(model, start, *data, SPEC, generator(3)))
    counting = Counts().double()
    with pytest.raises(ModelError, match="`seen` changes"):
        client_update(counting, us.params_of(counting), *data, SPEC)


def test_a_batch_of_one_sample_is_explained(data):
    x, y = data
    model = net()
    with pytest.raises(ModelError, match="17 examples in batches of 8, the last has 1"):
        client_update(model, start_of(model), x[:17], y[:17], SPEC)


def test_statistics_are_averaged_as_values():
    current = {"a.running_var": torch.tensor([1.0, 1.0]), "a.num_batches_tracked": torch.tensor(3)}

    def sent(var, count):
        values = torch.tensor(var), torch.tensor(count)
        return dict(zip(current, values, strict=True))

    found = averaged_statistics(
        current, [(sent([2.0, 4.0], 5), 1.0), (sent([5.0, 1.0], 9), 2.0), (sent([9.0, 9.0], 1), 0)]
    )
    assert torch.equal(found["a.running_var"], torch.tensor([4.0, 2.0]))
    assert found["a.num_batches_tracked"] == 9
    assert averaged_statistics(current, []) == current
    hostile = averaged_statistics(current, [(sent([-5.0, 1.0], 1), 1.0)])
    assert torch.equal(hostile["a.running_var"], torch.tensor([0.0, 1.0])), "no variance below 0"
