"""Switches of PyTorch are set on a GPU for as long as they are wanted, and put back.

They can be set without a GPU; what they do there is tested in `tests/gpu`.
"""

import threading
import warnings

import pytest
import torch

from unstale.inversion import Inversion, convert_many
from unstale.inversion.arithmetic import arithmetic

GPU, CPU = torch.device("cuda"), torch.device("cpu")
NEW = hasattr(torch.backends.cuda.matmul, "fp32_precision")


def switches():
    """Return whether matrix products and convolutions use TF32, and cuDNN's determinism."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    if NEW:
        found = [w.fp32_precision == "tf32" for w in (matmul, cudnn.conv, cudnn.rnn)]
    else:
        found = [matmul.allow_tf32, cudnn.allow_tf32, cudnn.allow_tf32]
    return [*found, cudnn.deterministic]


@pytest.fixture(autouse=True)
def _without_warnings():
    before = switches()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert switches() == before


@pytest.mark.parametrize(("precision", "tf32"), [("float32", False), ("tf32", True)])
def test_they_are_set_on_a_gpu_alone(precision, tf32):
    before = switches()
    with arithmetic(GPU, precision):
        assert switches() == [tf32, tf32, tf32, True]
    with pytest.raises(ZeroDivisionError), arithmetic(GPU, precision):
        raise ZeroDivisionError
    assert switches() == before
    with arithmetic(CPU, precision):
        assert switches() == before


@pytest.mark.skipif(not NEW, reason="PyTorch below 2.9 has one name for each switch")
def test_the_older_names_can_be_read_afterwards():
    """PyTorch raises where the older names and the newer ones disagree."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    with arithmetic(GPU, "tf32"):
        pass
    assert matmul.fp32_precision == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions warn
        assert matmul.allow_tf32 is False
        assert torch.get_float32_matmul_precision() == "highest"


def test_threads_share_them_until_the_last_is_done():
    before, done = switches(), threading.Event()
    entered = threading.Barrier(2)
    seen = []

    def other():
        with arithmetic(GPU, "tf32"):
            entered.wait(10)
            done.wait(10)
            seen.append(switches())

    thread = threading.Thread(target=other)
    with arithmetic(GPU, "tf32"):
        thread.start()
        entered.wait(10)
    assert switches() == [True, True, True, True]  # the other one still computes
    done.set()
    thread.join(10)
    assert seen == [[True, True, True, True]]
    assert switches() == before


def test_another_precision_waits():
    order, started = [], threading.Event()

    def other():
        started.set()
        with arithmetic(GPU, "float32"):
            order.append(("float32", switches()[:3]))

    thread = threading.Thread(target=other)
    with arithmetic(GPU, "tf32"):
        thread.start()
        started.wait(10)
        thread.join(0.2)
        assert thread.is_alive()
        order.append(("tf32", switches()[:3]))
    thread.join(10)
    assert order == [("tf32", [True] * 3), ("float32", [False] * 3)]


def test_it_has_no_effect_on_a_cpu(problem):
    found = [
        convert_many(
            problem.model,
            [problem.request("a", 20)],
            settings=Inversion(iterations=3, precision=precision, max_loss=9.0),
            **problem.parts,
        )[0]
        for precision in ("float32", "tf32")
    ]
    assert found[0].losses == found[1].losses
