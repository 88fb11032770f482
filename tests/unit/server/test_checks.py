"""What strangers send: one test per check, and a refused update changes nothing."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError

GOOD = {"weight": torch.tensor([[3.0, 0.0, 0.0]]), "bias": torch.tensor([4.0])}
WAITING = {name: p / 10 for name, p in GOOD.items()}


def make_server(**limits):
    """A server at version 2 with an open ticket on version 1 and one update waiting."""
    server = us.Server(nn.Linear(3, 1), limits=us.Limits(**limits), method="first_order")
    server.step()
    server.check_out("c")
    server.step()
    assert server.submit(us.Update("other", 0, WAITING, 5)).accepted
    return server


def everything(server):
    tree, versions = server.to_tree()
    tree.pop("refused")
    return repr(tree), sorted(versions)


def good(**changes):
    return dataclasses.replace(us.Update("c", 1, GOOD, 10), **changes)


def bad_delta(**changes):
    return good(delta={**GOOD, **changes})


INTEGERS = [True, 1.0, "1", None, np.bool_(True), torch.tensor(1), math.nan]
BAD = [
    ("type", None),
    ("type", SimpleNamespace(client_id="c", base_version=1, delta=GOOD, num_examples=1)),
    ("client_id", good(client_id="")),
    ("client_id", good(client_id=7)),
    ("client_id", good(client_id="\ud800")),
    *[("base_version", good(base_version=v)) for v in [-1, -(10**5000), *INTEGERS]],
    ("future", good(base_version=3)),
    ("future", good(base_version=10**5000)),
    *[("num_examples", good(num_examples=n)) for n in [0, -3, 10**400, 10**5000, *INTEGERS]],
    *[("weight", good(weight=w)) for w in [-0.1, 1.1, math.nan, math.inf, None, "1", 1j, 10**400]],
    ("names", good(delta=None)),
    ("names", good(delta=[GOOD["weight"]])),
    ("names", good(delta={})),
    ("names", good(delta={"weight": GOOD["weight"]})),
    ("names", bad_delta(extra=torch.ones(1))),
    ("names", good(delta={**GOOD, 5: torch.ones(1)})),
    ("type", bad_delta(bias=[4.0])),
    ("type", bad_delta(bias=np.array([4.0], dtype=np.float32))),
    ("type", bad_delta(weight=GOOD["weight"].to_sparse())),
    ("type", bad_delta(bias=torch.empty(1, device="meta"))),
    ("shape", bad_delta(weight=torch.ones(3))),
    ("shape", bad_delta(weight=torch.ones(3, 1))),
    ("shape", bad_delta(bias=torch.ones(()))),
    ("dtype", bad_delta(bias=torch.ones(1, dtype=torch.float64))),
    ("dtype", bad_delta(bias=torch.ones(1, dtype=torch.int32))),
    ("not_finite", bad_delta(bias=torch.tensor([math.nan]))),
    ("not_finite", bad_delta(weight=torch.tensor([[0.0, math.inf, 0.0]]))),
    ("not_finite", bad_delta(weight=torch.tensor([[0.0, -math.inf, 0.0]]))),
    ("repeated", us.Update("other", 0, GOOD, 5)),
]


@pytest.mark.parametrize(("code", "update"), BAD, ids=[f"{i}-{c}" for i, (c, _) in enumerate(BAD)])
def test_a_refused_update_changes_nothing_and_says_why(code, update):
    server = make_server()
    before = everything(server)
    receipt = server.submit(update)
    assert (receipt.accepted, receipt.code) == (False, code)
    assert "should" in receipt.reason
    assert "Found" in receipt.reason or "Missing" in receipt.reason
    assert len(receipt.reason) < 500
    assert everything(server) == before
    server.submit(update)
    report = server.step()
    assert (report.refused, report.arrivals) == ({code: 2}, 1)
    assert server.step().refused == {}  # counted once


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8])
def test_integers_of_any_kind_are_taken_and_made_plain(kind, tmp_path):
    server = make_server()
    update = good(base_version=kind(1), num_examples=kind(10), weight=np.float32(0.5))
    assert server.submit(update).accepted
    assert server.submit(good(base_version=1)).code == "repeated"
    server.save(tmp_path)  # NumPy's numbers would not go into a checkpoint
    assert us.Server.load(tmp_path).step().staleness == (1, 2)


def test_the_norm_limit_is_over_the_whole_delta():
    assert make_server(max_norm=5.0).submit(good()).accepted  # (3, 4): exactly 5
    receipt = make_server(max_norm=4.99).submit(good())
    assert receipt.code == "norm"
    assert "4.99" in receipt.reason
    assert "Found 5" in receipt.reason


def test_the_norm_of_huge_entries_is_no_way_around_the_limit():
    update = bad_delta(bias=torch.tensor([3e38]))
    assert make_server(max_norm=1e30).submit(update).code == "norm"


def test_the_examples_limit():
    server = make_server(max_examples=10)
    assert server.submit(good(num_examples=11)).code == "num_examples"
    assert server.submit(good(num_examples=10)).accepted
    # More than a float counts exactly is refused whatever the limit.
    assert make_server(max_examples=2**60).submit(good(num_examples=2**53 + 1)).code


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("name", ["max_norm", "max_examples"])
def test_limits_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        us.Limits(**{name: value})


def test_tensors_of_any_stride_or_with_a_graph_are_taken():
    server = make_server()
    weight = torch.ones(3, 1, requires_grad=True).t() * 2
    bias = torch.ones(4)[::4]
    assert server.submit(bad_delta(weight=weight, bias=bias)).accepted
    assert not any(p.requires_grad for p in server.step().updates[0].delta.values())
