"""`precision` on a GPU: TF32 is used where it is asked for, and only there.

TF32 rounds factors to a mantissa of 10 bits, 1e-3: losses of the first iterations then differ
from those in single precision by about as much, and may not be equal.
"""

import warnings
from dataclasses import replace

import pytest
import torch

from unstale.inversion import InputSpec, Inversion, convert_many
from unstale.inversion.solver import GRAPHS
from unstale.training import LocalSpec
from unstale.training.graph_recorder import recording_by

LOCAL = LocalSpec(lr=0.01, momentum=0.5, steps=3)
SETTINGS = Inversion(
    iterations=5, max_samples=16, start="grey", patience=0, restart_loss=0.0, max_loss=100.0
)
TF32 = replace(SETTINGS, precision="tf32")


def convert(problem, model, device, settings):
    return convert_many(
        model,
        problem.requests(device, LOCAL, 2),
        current=problem.current(device),
        local=LOCAL,
        inputs=InputSpec(problem.shape, 5, 0.0, 1.0),
        settings=settings,
    )


def switches():
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        return matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic
    return (
        matmul.fp32_precision,
        cudnn.conv.fp32_precision,
        cudnn.rnn.fp32_precision,
        cudnn.deterministic,
    )


@pytest.mark.parametrize("name", ["lenet", "resnet18"])
def test_tf32_is_used_where_it_is_asked_for(name, make_problem, device):
    if torch.cuda.get_device_capability(device) < (8, 0):
        pytest.skip("TF32 needs compute capability 8.0")
    problem = make_problem(name)
    model = problem.model_on(device)
    before = switches()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "There is a performance drop")  # of vmap, about speed
        warnings.filterwarnings("ignore", "Attempting to run cuBLAS")
        single = convert(problem, model, device, SETTINGS)
        tf32 = convert(problem, model, device, TF32)
        again = convert(problem, model, device, SETTINGS)
        with recording_by(None):
            eager = convert(problem, model, device, TF32)
    assert switches() == before
    assert len(GRAPHS.recordings(model)) == 2
    for a, b, c, d in zip(single, tf32, again, eager, strict=True):
        assert a.losses == c.losses
        assert b.losses == d.losses
        assert a.losses[0] != b.losses[0]
        assert b.losses[0] == pytest.approx(a.losses[0], rel=0.02)
        assert all(torch.equal(b.delta[n], d.delta[n]) for n in b.delta)


def test_the_callers_tf32_has_no_effect(make_problem, device):
    """PyTorch's own default is TF32 for convolutions; `float32` means float32."""
    problem = make_problem("lenet")
    model = problem.model_on(device)
    plain = convert(problem, model, device, SETTINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions have another name
        torch.backends.cudnn.allow_tf32 = True  # put back by the fixture of all these tests
    with recording_by(None):
        found = convert(problem, model, device, SETTINGS)
    for a, b in zip(found, plain, strict=True):
        assert a.losses == b.losses
        assert all(torch.equal(a.delta[n], b.delta[n]) for n in b.delta)
