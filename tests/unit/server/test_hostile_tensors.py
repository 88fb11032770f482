"""Every kind of value as an entry of a delta: taken for what it is worth, or refused.

`Server.submit` never raises, and a refused update leaves the server as it was.
"""

import math
import warnings

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.masked import masked_tensor

import unstale as us

DELTA = {"weight": torch.tensor([[3.0, -0.5, 0.25]]), "bias": torch.tensor([4.0])}


class Harmless(torch.Tensor):
    """A subclass that changes nothing."""


class RaisesInFunctions(torch.Tensor):
    """A subclass whose every operation fails."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise ZeroDivisionError(func)


class RaisesInDispatch(torch.Tensor):
    """A subclass that has a shape and a type, and no values."""

    @staticmethod
    def __new__(cls, like):
        return torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise ZeroDivisionError(func)


class UnshownList(list):
    def __repr__(self):
        raise ZeroDivisionError


def fake(t):
    with FakeTensorMode() as mode:
        return mode.from_tensor(t)


def escaped(transform):
    """A tensor as a function sees it under a transform of torch.func, kept beyond its end."""

    def make(t):
        kept = []

        def keep(x):
            kept.append(x)
            return x.sum()

        transform(keep)(t[None] if transform is torch.func.vmap else t)
        return kept[0]

    return make


def freed(t):
    t.untyped_storage().resize_(0)
    return t


def beyond_its_storage(t):
    t.untyped_storage().resize_(4 * (t.numel() - 1))
    return t


REFUSED = {
    "nested": ("type", lambda t: torch.nested.nested_tensor([t[..., :1], t])),
    "nested alone": ("type", lambda t: torch.nested.nested_tensor([t])),
    "jagged": ("type", lambda t: torch.nested.nested_tensor([t], layout=torch.jagged)),
    "sparse coo": ("type", lambda t: t.to_sparse()),
    "sparse csr": ("type", lambda t: t.reshape(1, -1).to_sparse_csr()),
    "sparse csc": ("type", lambda t: t.reshape(1, -1).to_sparse_csc()),
    "sparse bsr": ("type", lambda t: t.reshape(1, -1).to_sparse_bsr((1, 1))),
    "meta": ("type", lambda t: t.to("meta")),
    "fake": ("type", fake),
    "freed": ("type", freed),
    "beyond its storage": ("type", beyond_its_storage),
    "escaped from vmap": ("type", escaped(torch.func.vmap)),
    "escaped from grad": ("type", escaped(torch.func.grad)),
    "masked": ("type", lambda t: masked_tensor(t, t > 0)),
    "harmless subclass": ("type", lambda t: t.as_subclass(Harmless)),
    "subclass that raises": ("type", lambda t: t.as_subclass(RaisesInFunctions)),
    "subclass without values": ("type", RaisesInDispatch),
    "parameter of a subclass": ("type", lambda t: nn.Parameter(t.as_subclass(Harmless))),
    "uninitialized": ("type", lambda t: nn.UninitializedParameter()),
    "string": ("type", lambda t: "4.0"),
    "bytes": ("type", lambda t: b"\0" * 12),
    "none": ("type", lambda t: None),
    "number": ("type", lambda t: 4.0),
    "numpy": ("type", lambda t: t.numpy()),
    "numpy scalar": ("type", lambda t: np.float32(4.0)),
    "list": ("type", lambda t: t.tolist()),
    "list of tensors": ("type", list),
    "list that cannot be shown": ("type", lambda t: UnshownList([1.0])),
    "dict": ("type", lambda t: {"data": t}),
    "module": ("type", lambda t: nn.Linear(3, 1)),
    "type": ("type", lambda t: torch.Tensor),
    "function": ("type", lambda t: t.abs),
    "empty": ("shape", lambda t: t[..., :0]),
    "without dimensions": ("shape", lambda t: t.sum()),
    "one dimension more": ("shape", lambda t: t[None]),
    "transposed": ("shape", lambda t: t.reshape(-1, 1, 1)),
    "larger": ("shape", lambda t: torch.cat([t, t], -1)),
    "huge shape in no memory": ("shape", lambda t: t[..., :1].expand(*t.shape[:-1], 2**40)),
    "quantized": ("dtype", lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8)),
    "complex": ("dtype", lambda t: t.to(torch.complex64)),
    "conjugate view": ("dtype", lambda t: t.to(torch.complex64).conj()),
    "bool": ("dtype", lambda t: t.bool()),
    "int64": ("dtype", lambda t: t.long()),
    "uint8": ("dtype", lambda t: t.abs().byte()),
    "float16": ("dtype", lambda t: t.half()),
    "bfloat16": ("dtype", lambda t: t.bfloat16()),
    "float8": ("dtype", lambda t: t.to(torch.float8_e4m3fn)),
    "float64": ("dtype", lambda t: t.double()),
    "nan": ("not_finite", lambda t: t * math.nan),
    "one nan": ("not_finite", lambda t: t.index_fill(-1, torch.tensor([0]), math.nan)),
    "infinity": ("not_finite", lambda t: t * math.inf),
    "minus infinity": ("not_finite", lambda t: t.abs() * -math.inf),
    "huge": ("norm", lambda t: t.sign() * 3e38),
    "beyond the limit": ("norm", lambda t: t * 100),
}  # fmt: skip

# Each holds the values of `t`, in another way.
TAKEN = {
    "plain": lambda t: t,
    "parameter": lambda t: nn.Parameter(t),
    "frozen parameter": lambda t: nn.Parameter(t, requires_grad=False),
    "buffer": lambda t: nn.Buffer(t),
    "requires grad": lambda t: t.requires_grad_(),
    "with a graph": lambda t: t.requires_grad_() * 1,
    "negative view": lambda t: torch.complex(t, -t).conj().imag,
    "strided": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "transposed twice": lambda t: t.mT.clone().mT if t.ndim == 2 else t,
    "flipped": lambda t: t.flip(-1).flip(-1),
    "offset": lambda t: torch.cat([t, t], -1)[..., t.shape[-1] :],
    "numpy's memory": lambda t: torch.from_numpy(t.numpy()),
    "shared memory": lambda t: t.share_memory_(),
    "inference": torch.inference_mode()(lambda t: t.clone()),
}
CODES = {**{kind: code for kind, (code, _) in REFUSED.items()}, **dict.fromkeys(TAKEN, "")}


def make(kind, t):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested, masked and sparse ones say that they are new
        return (TAKEN[kind] if kind in TAKEN else REFUSED[kind][1])(t.clone())


def delta_of(kind, entry):
    return {**{name: t.clone() for name, t in DELTA.items()}, entry: make(kind, DELTA[entry])}


def make_server():
    """A server at version 1, so that what is based on version 0 is stale."""
    model = nn.Linear(3, 1)
    for weight in model.parameters():
        nn.init.ones_(weight)
    server = us.Server(model, method="first_order", limits=us.Limits(max_norm=100.0))
    server.step()
    return server


def everything(server):
    tree, versions = server.to_tree()
    tree.pop("refused")
    return repr(tree), sorted(versions)


@pytest.mark.parametrize("entry", DELTA)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_used_is_refused_and_changes_nothing(kind, entry):
    server = make_server()
    before = everything(server)
    receipt = server.submit(us.Update("c", 0, delta_of(kind, entry), 10))
    assert (receipt.accepted, receipt.code) == (False, REFUSED[kind][0])
    assert "should" in receipt.reason
    assert "Found" in receipt.reason
    assert len(receipt.reason) < 300
    assert everything(server) == before
    assert server.submit(us.Update("c", 0, delta_of("plain", entry), 10)).accepted
    report = server.step()
    assert (report.arrivals, report.refused) == (1, {receipt.code: 1})


@pytest.mark.parametrize("entry", DELTA)
@pytest.mark.parametrize("kind", TAKEN)
def test_what_holds_the_values_counts_as_the_values(kind, entry, tmp_path):
    plain, other = make_server(), make_server()
    delta = delta_of(kind, entry)
    assert plain.submit(us.Update("c", 0, delta_of("plain", entry), 10)).accepted
    assert other.submit(us.Update("c", 0, delta, 10)).accepted
    with torch.inference_mode():
        delta[entry].mul_(0)  # the sender may go on using its tensors
    plain.step()
    (update,) = other.step().updates
    assert all(type(t) is torch.Tensor and not t.requires_grad for t in update.delta.values())
    assert all(torch.equal(t, plain.params[name]) for name, t in other.params.items())
    other.save(tmp_path)
    assert us.Server.load(tmp_path).version == 2


def test_entries_may_share_their_memory():
    plain, other = make_server(), make_server()
    memory = torch.tensor([3.0, -0.5, 0.25])
    shared = {"weight": memory[None], "bias": memory[:1]}
    apart = {name: t.clone() for name, t in shared.items()}
    assert plain.submit(us.Update("c", 0, apart, 10)).accepted
    assert other.submit(us.Update("c", 0, shared, 10)).accepted
    plain.step()
    other.step()
    assert all(torch.equal(t, plain.params[name]) for name, t in other.params.items())


@hypothesis.given(
    sent=st.lists(st.tuples(st.sampled_from(sorted(CODES)), st.sampled_from(sorted(DELTA))))
)
@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
def test_any_sequence_leaves_what_its_good_updates_alone_leave(sent):
    mixed, alone = make_server(), make_server()
    for number, (kind, entry) in enumerate(sent):
        update = us.Update(f"c{number}", 0, delta_of(kind, entry), 10)
        receipt = mixed.submit(update)
        assert receipt.code == CODES[kind]
        if receipt.accepted:
            assert alone.submit(update).accepted
    assert everything(mixed) == everything(alone)
    report = mixed.step()
    assert sum(report.refused.values()) == sum(CODES[kind] != "" for kind, _ in sent)
    alone.step()
    assert everything(mixed) == everything(alone)
