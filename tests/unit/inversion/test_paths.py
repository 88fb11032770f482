"""The two ways to differentiate a fit: through the trained weights, and along their path."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import unstale as us
from unstale.inversion import Inversion, convert_many
from unstale.inversion.objective import disparity_of
from unstale.inversion.paths import EXACT_STEPS, Along, exact, path_of
from unstale.inversion.unroll import batched, one_by_one, stacked
from unstale.seeding import generator
from unstale.training.local import loss_gradient, train
from unstale.training.losses import resolve_loss

FORMS = {"one by one": one_by_one, "batched": batched}
RECIPES = {
    "sgd": us.LocalSpec(lr=0.3, steps=6),
    "momentum": us.LocalSpec(lr=0.2, momentum=0.7, steps=6),
    "prox": us.LocalSpec(lr=0.3, momentum=0.5, steps=6, prox=0.9),
    "weight decay": us.LocalSpec(lr=0.3, steps=6, weight_decay=0.5),
    "mini-batches": us.LocalSpec(lr=0.2, momentum=0.5, steps=7, batch_size=2, prox=0.4),
    "adam": us.LocalSpec(lr=0.05, optimizer="adam", steps=6),
    "adam in mini-batches": us.LocalSpec(
        lr=0.05, optimizer="adam", steps=7, batch_size=2, prox=0.4, weight_decay=0.1
    ),
}


class Case:
    """Three trainings of a small net with a frozen layer and a buffer, in double precision."""

    def __init__(self, local: us.LocalSpec):
        self.local = local
        self.model = nn.Sequential(
            nn.Conv1d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.BatchNorm1d(9).eval(),
            nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 3),
        ).double()  # fmt: skip
        self.model[4].bias.requires_grad_(False)
        self.names = tuple(n for n, p in self.model.named_parameters() if p.requires_grad)
        rng = generator(0, "paths")

        def draw(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=rng, dtype=torch.float64)

        self.weights = {n: draw(3, *p.shape) * 0.5 for n, p in self.model.named_parameters()}
        self.x, self.logits = draw(3, 5, 2, 4), draw(3, 5, 3)
        self.target = draw(3, sum(self.weights[n][0].numel() for n in self.names)) * 0.1

    def fit_of(self, deltas: torch.Tensor) -> torch.Tensor:
        return disparity_of("l2+cosine")(deltas, self.target)

    def by(self, path, form) -> list[torch.Tensor]:
        """Return the disparities and the gradients of inputs and label logits."""
        x, logits = self.x.clone().requires_grad_(), self.logits.clone().requires_grad_()
        trainings = stacked(self.model, self.local, self.weights, x, logits.softmax(-1))
        fit, number = path(FORMS[form](self.model, self.local), trainings, self.fit_of)
        return [fit.detach(), *torch.autograd.grad(number, (x, logits))]

    def reference(self) -> list[torch.Tensor]:
        """The same by autograd through one graph, with the weights of each step detached."""
        x, logits = self.x.clone().requires_grad_(), self.logits.clone().requires_grad_()
        loss_fn, buffers = resolve_loss(self.local.loss), dict(self.model.named_buffers())

        def gradient(current, xb, yb):
            fixed = {n: p.detach().requires_grad_(n in self.names) for n, p in current.items()}
            return loss_gradient(
                self.model, loss_fn, self.names, fixed, buffers, xb, yb, create_graph=True
            )

        rows = []
        for i in range(3):
            start = {n: w[i] for n, w in self.weights.items()}
            batches = self.local.batches(5, None)
            y = logits[i].softmax(-1)
            trained = train(start, x[i], y, self.local, gradient, self.names, batches)
            rows.append(torch.cat([(trained[n] - start[n]).reshape(-1) for n in self.names]))
        fit = self.fit_of(torch.stack(rows))
        return [fit.detach(), *torch.autograd.grad(fit.sum(), (x, logits))]


def close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RECIPES)
def test_along_is_autograd_with_detached_weights(name, form):
    case = Case(RECIPES[name])
    found = case.by(Along(case.local, case.local.steps), form)
    close(found, case.reference())
    through = case.by(exact, form)
    close(found[:1], through[:1])  # the disparity is the same, its gradient is not
    assert (found[1] - through[1]).norm() > 1e-3 * through[1].norm()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RECIPES)
def test_for_one_step_both_are_the_same(name, form):
    case = Case(dataclasses.replace(RECIPES[name], steps=1))
    close(case.by(Along(case.local, 1), form), case.by(exact, form))


def test_auto_is_exact_for_few_steps():
    local = us.LocalSpec(lr=0.1)
    assert path_of("auto", local, EXACT_STEPS) is exact
    assert isinstance(path_of("auto", local, EXACT_STEPS + 1), Along)
    assert path_of("exact", local, 1000) is exact
    assert isinstance(path_of("along", local, 1), Along)


class Peak(TorchDispatchMode):
    """Notes how many bytes of what is computed here are alive at most at the same time."""

    def __init__(self):
        super().__init__()
        self.alive = {}
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else (result,):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self.alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.alive = {k: v for k, v in self.alive.items() if not v[0].expired()}
        self.most = max(self.most, sum(size for _, size in self.alive.values()))
        return result


def peak(path, form, optimizer, steps) -> float:
    """Return the peak in multiples of what one step's inputs take, for large batches."""
    local = us.LocalSpec(lr=0.01, optimizer=optimizer, steps=steps)
    model = nn.Sequential(nn.Linear(20, 10), nn.Tanh(), nn.Linear(10, 3))
    weights = {n: p.detach().expand(2, *p.shape) for n, p in model.named_parameters()}
    x = torch.randn(2, 500, 20, generator=generator(0, "x")).requires_grad_()
    y = torch.full((2, 500, 3), 1 / 3)
    trainings = stacked(model, local, weights, x, y)
    chosen = exact if path == "exact" else Along(local, steps)
    with Peak() as mode:
        _, number = chosen(FORMS[form](model, local), trainings, lambda d: d.square().sum(1))
        torch.autograd.grad(number, x)
    return mode.most / (x.numel() * x.element_size())


@pytest.mark.parametrize("form", FORMS)
def test_the_memory_of_along_does_not_grow_with_the_steps(form):
    few, many = (peak("along", form, "sgd", steps) for steps in (5, 40))
    assert many < 1.05 * few
    few, many = (peak("exact", form, "sgd", steps) for steps in (5, 40))
    assert many > 4 * few


def test_with_adam_it_grows_by_one_gradient_a_step():
    few, many = (peak("along", "one by one", "adam", steps) for steps in (5, 20))
    floats = sum(p.numel() for p in nn.Linear(20, 10).parameters()) + 33  # both layers'
    gradients = 15 * floats / (500 * 20)  # of 15 more steps, in multiples of the inputs
    assert few + 0.9 * gradients < many < few + 3 * gradients


def saved(path, steps) -> int:
    """Return how many tensors autograd has saved at the same time, at most."""

    class Saved:
        now = most = 0

        def __init__(self, tensor):
            self.tensor = tensor
            Saved.now += 1
            Saved.most = max(Saved.most, Saved.now)

        def __del__(self):
            Saved.now -= 1

    case = Case(dataclasses.replace(RECIPES["momentum"], steps=steps))
    chosen = exact if path == "exact" else Along(case.local, steps)
    with torch.autograd.graph.saved_tensors_hooks(Saved, lambda kept: kept.tensor):
        case.by(chosen, "one by one")
    return Saved.most


def test_along_saves_the_tensors_of_one_step():
    assert saved("along", 40) == saved("along", 5)
    assert saved("exact", 40) > 5 * saved("exact", 5)


@pytest.mark.parametrize("clients", ["a", "abc"])  # one by one, and batched
def test_a_fit_along_the_path_is_as_good(problem, clients):
    errors = {}
    for path in ("exact", "along"):
        settings = Inversion(path=path, iterations=60)
        found = convert_many(
            problem.model,
            [problem.request(c, 20) for c in clients],
            settings=settings,
            **problem.parts,
        )
        assert all(f.ok for f in found)
        errors[path] = sum(problem.error(c, f.delta) for c, f in zip(clients, found, strict=True))
    assert errors["along"] < 1.5 * errors["exact"]
