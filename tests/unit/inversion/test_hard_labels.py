"""Surrogates whose samples have one class each."""

from dataclasses import dataclass, replace

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import unstale as us
from unstale.inversion import InputSpec, Inversion, Request, Surrogate, fit_many
from unstale.inversion.cold_start import cold_starts
from unstale.inversion.hard_labels import hard_logits, hard_start, softened, whole_counts
from unstale.inversion.objective import entropy
from unstale.params import add
from unstale.seeding import generator

HARD = Inversion(history=1, labels="hard", max_samples=40, iterations=100)


@dataclass
class Mixed:
    """A client with three classes of digits, 24, 12 and 4 samples of each."""

    model: nn.Module
    local: us.LocalSpec
    inputs: InputSpec
    base: us.Params
    later: us.Params
    x: torch.Tensor
    y: torch.Tensor

    def request(self, base: us.Params, **rest) -> Request:
        delta = us.local_update(self.model, base, self.x, self.y, self.local)
        return Request(base, delta, len(self.x), seed=1, **rest)

    def fit(self, *requests, **changes):
        return fit_many(
            self.model, requests, local=self.local, inputs=self.inputs,
            settings=replace(HARD, **changes),
        )  # fmt: skip


@pytest.fixture(scope="module")
def mixed() -> Mixed:
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    rows = torch.cat([(y == k).nonzero()[:n, 0] for k, n in ((2, 24), (5, 12), (7, 4))])
    others = torch.cat([(y == k).nonzero()[30:50, 0] for k in range(10)])
    model = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    rng = generator(3, "w")
    base = {
        n: torch.randn(p.shape, generator=rng) * (p[0].numel() ** -0.5 if p.ndim > 1 else 0.0)
        for n, p in model.named_parameters()
    }
    local = us.LocalSpec(lr=0.2, momentum=0.5, steps=4)
    later = base
    for _ in range(5):
        later = add(later, us.local_update(model, later, x[others], y[others], local))
    return Mixed(model, local, InputSpec((64,), 10, 0.0, 1.0), base, later, x[rows], y[rows])


@pytest.mark.parametrize(
    ("shares", "total", "counts"),
    [
        ([0.5, 0.5], 3, [2, 1]),  # of equal rests the first
        ([0.26, 0.26, 0.48], 4, [1, 1, 2]),
        ([1.0, 0.0], 7, [7, 0]),
        ([0.1] * 10, 10, [1] * 10),
    ],
)
def test_whole_counts_add_up(shares, total, counts):
    assert whole_counts(torch.tensor(shares), total).tolist() == counts


def test_samples_keep_the_class_that_they_favour_as_far_as_there_are_so_many():
    favoured = Surrogate(torch.zeros(6, 1), hard_logits(torch.tensor([0, 0, 0, 1, 1, 2]), 3))
    shares = torch.tensor([1 / 6, 3 / 6, 2 / 6]).log().expand(6, 3)
    begun = hard_start(favoured, Surrogate(torch.ones(6, 1), shares), seed=0)
    classes = begun.labels.argmax(1)
    assert classes.bincount().tolist() == [1, 3, 2]
    assert classes[[0, 3, 4, 5]].tolist() == [0, 1, 1, 2]
    assert torch.equal(begun.x, favoured.x), "inputs begin anew"
    again = hard_start(favoured, Surrogate(torch.ones(6, 1), shares), seed=0)
    assert torch.equal(begun.y_logits, again.y_logits)


def test_the_seed_decides_which_of_the_others_has_which_class():
    start = Surrogate(torch.zeros(12, 1), torch.zeros(12, 3))
    even = Surrogate(torch.zeros(12, 1), torch.zeros(12, 3))
    one, other = (hard_start(start, even, seed).labels.argmax(1) for seed in (0, 1))
    assert one.bincount().tolist() == other.bincount().tolist() == [4, 4, 4]
    assert not torch.equal(one, other)


def test_softened_labels_favour_the_same_class_and_can_be_changed():
    logits = torch.tensor([[3.0, 9.0, -1.0], [-5.0, -3.0, -4.0], [2.5, 1.0, 12.0], [0.1, 0.2, 0.0]])
    soft = softened(Surrogate(torch.zeros(4, 1), logits))
    assert soft.labels.argmax(1).tolist() == [1, 1, 2, 1]
    assert soft.labels.max() < 0.98


def test_a_first_fit_finds_out_how_many_samples_each_class_has(mixed):
    (found,) = mixed.fit(mixed.request(mixed.base))
    labels = found.surrogate.labels
    assert found.ok
    assert (labels.max(1).values > 0.99).all()
    counts = labels.argmax(1).bincount(minlength=10)
    true = mixed.y.bincount(minlength=10)
    assert int((counts - true).abs().sum()) <= 4, counts.tolist()
    assert len(found.losses) <= HARD.iterations


def test_a_later_fit_keeps_the_classes(mixed):
    (first,) = mixed.fit(mixed.request(mixed.base))
    (warm,) = mixed.fit(mixed.request(mixed.later, warm=first.surrogate))
    assert warm.warm
    before, after = first.surrogate.labels.argmax(1), warm.surrogate.labels.argmax(1)
    assert torch.equal(before, after)
    assert not torch.equal(first.surrogate.x, warm.surrogate.x)


def test_a_soft_surrogate_of_before_goes_on_with_hard_labels_of_the_same_counts(mixed):
    (soft,) = mixed.fit(mixed.request(mixed.base), labels="soft")
    assert (soft.surrogate.labels.max(1).values < 0.99).any()
    (warm,) = mixed.fit(mixed.request(mixed.later, warm=soft.surrogate))
    assert (warm.surrogate.labels.max(1).values > 0.99).all()
    wanted = whole_counts(soft.surrogate.labels.mean(0), 40)
    assert torch.equal(warm.surrogate.labels.argmax(1).bincount(minlength=10), wanted)


@pytest.mark.parametrize("more", [60, 24])
def test_a_client_that_grows_or_shrinks_keeps_the_shares_of_its_classes(mixed, more):
    (first,) = mixed.fit(mixed.request(mixed.base))
    request = replace(mixed.request(mixed.later, warm=first.surrogate), num_examples=more)
    (warm,) = mixed.fit(request, max_samples=80, restart_loss=0.0)
    assert warm.warm
    wanted = whole_counts(first.surrogate.labels.mean(0), more)
    assert torch.equal(warm.surrogate.labels.argmax(1).bincount(minlength=10), wanted)


@pytest.mark.parametrize("iterations", [12, 29, 40])
def test_too_few_iterations_are_no_worse_than_with_soft_labels(mixed, iterations):
    (hard,) = mixed.fit(mixed.request(mixed.base), iterations=iterations, max_loss=9.0)
    (soft,) = mixed.fit(
        mixed.request(mixed.base), iterations=iterations, max_loss=9.0, labels="soft"
    )
    assert len(hard.losses) <= iterations
    assert hard.loss <= max(0.1, 3 * soft.loss)


def test_entropy_pushes_soft_labels_towards_one_class(mixed):
    def mean_entropy(weight):
        (found,) = mixed.fit(mixed.request(mixed.base), labels="soft", entropy=weight)
        return float(entropy(found.surrogate.y_logits))

    assert mean_entropy(0.3) < 0.7 * mean_entropy(0.0)


@pytest.mark.parametrize("changes", [{}, {"start": "grey"}, {"iterations": 12}])
def test_the_same_seed_gives_the_same_and_clients_do_not_matter_to_each_other(mixed, changes):
    request, other = mixed.request(mixed.base), mixed.request(mixed.later)
    (alone,) = mixed.fit(request, **changes)
    both = mixed.fit(request, other, **changes)
    assert torch.equal(alone.surrogate.labels.argmax(1), both[0].surrogate.labels.argmax(1))
    torch.testing.assert_close(
        torch.tensor(alone.losses[:12]), torch.tensor(both[0].losses[:12]), rtol=1e-3, atol=1e-4
    )
    (again,) = mixed.fit(request, **changes)
    assert again.losses == alone.losses


def test_a_fit_without_time_still_has_a_result(mixed):
    (late,) = mixed.fit(mixed.request(mixed.base), max_seconds=1e-9, start="grey")
    assert len(late.losses) == 1


def test_what_a_borrowed_surrogate_lends_can_be_changed(mixed):
    (lent,) = mixed.fit(mixed.request(mixed.base))
    request = mixed.request(mixed.base, borrowed=lent.surrogate)
    names = {"start": "grey+borrowed"}
    _, hard = cold_starts(request, mixed.inputs, replace(HARD, **names))
    _, soft = cold_starts(request, mixed.inputs, replace(HARD, labels="soft", **names))
    assert torch.equal(soft.y_logits, lent.surrogate.y_logits)
    assert hard.labels.max() < 0.98
    assert torch.equal(hard.labels.argmax(1), soft.labels.argmax(1))
