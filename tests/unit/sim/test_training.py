import pytest
import torch
from torch import nn

from unstale.params import params_of
from unstale.sim.training import Work, train_cohort
from unstale.training.local import LocalSpec, local_update

RECIPES = {
    "full batch": LocalSpec(lr=0.1, epochs=3),
    "mini-batch with a rest": LocalSpec(lr=0.1, epochs=2, batch_size=4),
    "steps across passes": LocalSpec(lr=0.1, steps=7, batch_size=4),
    "batch larger than the data": LocalSpec(lr=0.1, epochs=2, batch_size=1000),
    "momentum": LocalSpec(lr=0.1, momentum=0.9, epochs=3, batch_size=3),
    "adam": LocalSpec(lr=0.01, optimizer="adam", epochs=3, batch_size=4),
    "prox": LocalSpec(lr=0.1, prox=0.7, epochs=4),
    "weight decay": LocalSpec(lr=0.1, weight_decay=0.1, epochs=2, batch_size=4),
    "mse": LocalSpec(lr=0.1, loss="mse", epochs=2, batch_size=4),
}


def cohort(model, sizes, *, seed=0):
    """Clients of those sizes, each with weights, samples and an order of its own."""
    rng = torch.Generator().manual_seed(seed)
    start = params_of(model)
    work = []
    for i, size in enumerate(sizes):
        params = {
            n: p + 0.3 * torch.randn(p.shape, generator=rng, dtype=p.dtype)
            for n, p in start.items()
        }
        x = torch.randn(size, 6, generator=rng, dtype=torch.float64)
        y = torch.randint(0, 4, (size,), generator=rng)
        work.append(Work(params, x, y, torch.Generator().manual_seed(100 + i)))
    return work


def assert_same(found, wanted, atol=1e-12):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert set(a) == set(b)
        for name in b:
            torch.testing.assert_close(a[name], b[name], rtol=0, atol=atol)


@pytest.mark.parametrize("name", RECIPES)
def test_batched_equals_loop(name, make_model):
    model, spec = make_model().double(), RECIPES[name]
    sizes = [10, 7, 10, 3, 7, 10, 1]  # groups of different sizes, interleaved; one alone
    looped = train_cohort(model, cohort(model, sizes), spec, batched=False)
    batched = train_cohort(model, cohort(model, sizes), spec, batched=True)
    assert_same(batched, looped)
    # Every client moved, and no two alike: a mixed-up order could not pass above.
    weights = [delta["0.weight"] for delta in looped]
    assert all(w.abs().max() > 1e-4 for w in weights)
    assert all(
        not torch.allclose(a, b, atol=1e-6) for i, a in enumerate(weights) for b in weights[:i]
    )


def test_loop_is_local_update_in_the_order_of_work(make_model):
    model, spec = make_model().double(), RECIPES["momentum"]
    work = cohort(model, [5, 9, 2])
    wanted = [
        local_update(model, w.params, w.x, w.y, spec, torch.Generator().manual_seed(100 + i))
        for i, w in enumerate(work)
    ]
    assert_same(train_cohort(model, work, spec, batched=False), wanted, atol=0)


@pytest.mark.parametrize("spec", [RECIPES["full batch"], RECIPES["adam"]], ids=["sgd", "adam"])
def test_frozen_parameters_stay(spec, make_model):
    model = make_model().double()
    model[0].weight.requires_grad_(False)
    sizes = [6, 6, 4]
    looped = train_cohort(model, cohort(model, sizes), spec, batched=False)
    batched = train_cohort(model, cohort(model, sizes), spec, batched=True)
    assert_same(batched, looped)
    for delta in batched:
        assert not delta["0.weight"].any()
        assert delta["0.bias"].any()


def test_unused_parameters_get_no_change():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(6, 4), nn.Linear(6, 4)

        def forward(self, x):
            return self.used(x)

    model = Unused().double()
    looped = train_cohort(model, cohort(model, [5, 5]), LocalSpec(lr=0.1), batched=False)
    batched = train_cohort(model, cohort(model, [5, 5]), LocalSpec(lr=0.1), batched=True)
    assert_same(batched, looped)
    assert not any(delta["idle.weight"].any() for delta in batched)


def test_buffers_take_part():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4)
            self.register_buffer("shift", torch.linspace(0, 3, 6, dtype=torch.float64))

        def forward(self, x):
            return self.linear(x + self.shift)

    model = Shifted().double()
    looped = train_cohort(model, cohort(model, [5, 5]), LocalSpec(lr=0.1), batched=False)
    batched = train_cohort(model, cohort(model, [5, 5]), LocalSpec(lr=0.1), batched=True)
    assert_same(batched, looped)


def test_convolutions(make_model):
    model = nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4)
    ).double()
    spec = LocalSpec(lr=0.1, epochs=2, batch_size=4)
    looped = train_cohort(model, cohort(model, [9, 9, 5]), spec, batched=False)
    assert_same(train_cohort(model, cohort(model, [9, 9, 5]), spec, batched=True), looped)


@pytest.mark.parametrize("batched", [None, False, True])
def test_no_work(batched, make_model):
    assert train_cohort(make_model(), [], LocalSpec(), batched=batched) == []


def test_by_device_when_not_told(make_model, monkeypatch):
    from unstale.sim import training

    def refuse(*_):
        raise AssertionError("a CPU cohort should not be stacked")

    monkeypatch.setattr(training, "train_stacked", refuse)
    model = make_model().double()
    assert len(train_cohort(model, cohort(model, [3, 3]), LocalSpec())) == 2
    with pytest.raises(AssertionError, match="stacked"):
        train_cohort(model, cohort(model, [3, 3]), LocalSpec(), batched=True)


@pytest.mark.parametrize("batched", [False, True])
def test_inputs_are_left_alone(batched, make_model):
    model = make_model().double()
    work, before = cohort(model, [4, 4]), params_of(model)
    kept = [{n: p.clone() for n, p in w.params.items()} for w in work]
    train_cohort(model, work, LocalSpec(lr=0.5, momentum=0.9, epochs=3), batched=batched)
    for w, old in zip(work, kept, strict=True):
        assert all(torch.equal(w.params[n], p) for n, p in old.items())
        assert not any(p.requires_grad for p in w.params.values())
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())


@pytest.mark.parametrize("batched", [False, True])
def test_the_order_of_names_does_not_matter(batched, make_model):
    """Weights that were read back from disk come in any order."""
    model, spec = make_model().double(), RECIPES["momentum"]
    wanted = train_cohort(model, cohort(model, [4, 4]), spec, batched=batched)
    turned = [
        Work(dict(reversed(w.params.items())), w.x, w.y, w.generator) for w in cohort(model, [4, 4])
    ]
    found = train_cohort(model, turned, spec, batched=batched)
    assert_same(found, wanted, atol=0)
    if batched:  # a recorded graph maps what it is given by place
        assert [list(d) for d in found] == [[n for n, _ in model.named_parameters()]] * 2
