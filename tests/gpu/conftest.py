"""Set-up of the tests that need CUDA: skipped elsewhere, single precision, repeatable kernels."""

import copy
import gc
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from unstale import models
from unstale.inversion import Request
from unstale.params import params_of, to_device
from unstale.sim import Work
from unstale.training import local_update

HERE = Path(__file__).parent
SHAPES = {"lenet": (1, 28, 28), "cnn1d": (3, 32), "resnet18": (3, 8, 8), "scaled": (20,)}
CLASSES = 5


def pytest_collection_modifyitems(items):
    skip = pytest.mark.skip(reason="gpu: needs CUDA, and torch.cuda.is_available() is false")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            # Said once a process by some versions, when the first product is in a backward pass.
            item.add_marker(pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"))
            # About speed alone, and these tests are about numbers.
            item.add_marker(pytest.mark.filterwarnings("ignore:There is a performance drop"))
            if not torch.cuda.is_available():
                item.add_marker(skip)


@pytest.fixture
def device():
    return torch.device("cuda")


@pytest.fixture(autouse=True)
def _comparable():
    """Single precision instead of TF32, and kernels that give the same bits every time."""
    cudnn = torch.backends.cudnn

    def switch(tf32, deterministic, benchmark):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions have another name for the first
            before = cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark
            cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark = tf32, deterministic, benchmark
        return before

    before = switch(False, True, False)
    yield
    switch(*before)


class Scaled(nn.Module):
    """A model with a buffer that its outputs depend on."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, CLASSES))
        self.register_buffer("scale", torch.linspace(0.5, 2.0, 20))

    def forward(self, x):
        return self.layers(x * self.scale)


@dataclass
class Problem:
    """Clients of one model on the CPU, with weights and data of their own; copied to a GPU."""

    model: nn.Module
    shape: tuple[int, ...]
    samples: int

    def work(self, device, count, seed=0):
        rng = torch.Generator().manual_seed(seed)
        work = []
        for i in range(count):
            params = {
                n: p + 0.02 * torch.randn(p.shape, generator=rng)
                for n, p in params_of(self.model).items()
            }
            x = torch.rand(self.samples, *self.shape, generator=rng)
            y = torch.randint(0, CLASSES, (self.samples,), generator=rng)
            order = torch.Generator().manual_seed(100 * seed + i)
            work.append(Work(to_device(params, device), x.to(device), y.to(device), order))
        return work

    def requests(self, device, spec, count, seed=0, past=0, warm=None):
        """Return what clients sent, trained on the CPU: the same numbers for every device."""
        found = []
        for i, w in enumerate(self.work("cpu", count, seed)):
            sent = [
                (
                    to_device(base, device),
                    to_device(local_update(self.model, base, w.x, w.y, spec), device),
                )
                for base in (
                    {n: p * (1 - 0.01 * k) for n, p in w.params.items()} for k in range(past + 1)
                )
            ]
            base, delta = sent[0]
            known = None if warm is None else warm[i]
            found.append(Request(base, delta, self.samples, past=sent[1:], warm=known, seed=i))
        return found

    def current(self, device, seed=0):
        """Return the weights of today."""
        return self.work(device, 1, seed=1000 + seed)[0].params

    def model_on(self, device):
        """Return a copy of the model, with recordings of its own."""
        return copy.deepcopy(self.model).to(device)


@pytest.fixture
def make_problem():
    def make(name, samples=20):
        shape = SHAPES[name]
        model = Scaled() if name == "scaled" else models.build(name, shape, CLASSES, seed=0)
        return Problem(model, shape, samples)

    return make


@pytest.fixture
def pressure(device):
    """Free what can be freed on the device, and write over it what no index should be."""

    def press():
        gc.collect()
        if device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        garbage = [
            torch.full((size,), 2**40, device=device)
            for size in (1, 8, 16, 64, 256, 4096, 2**20)
            for _ in range(50)
        ]
        del garbage

    return press
