"""First-order compensation: the formula, its sign, and its use of the base's weights."""

import math

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError


def test_formula_on_three_entries(view, three, late):
    base, now = three(1.0, 1.0, 1.0), three(3.0, 0.0, 1.5)
    outcome = us.FirstOrder(lam=0.5).apply([late(2.0, -4.0, 10.0)], {}, view(8, now, {3: base}))
    # Δ − λ·Δ²·(w_t − w_b):  2 − .5·4·2,  −4 − .5·16·(−1),  10 − .5·100·.5
    assert outcome.updates[0].delta["w"].tolist() == [-2.0, 4.0, -15.0]
    assert outcome.updates[0].weight == 1.0
    assert [n.kind for n in outcome.notes] == ["compensated"]


def test_is_exact_where_the_hessian_is_what_dc_asgd_assumes(view, three, late):
    """One step of size η on a quadratic with Hessian diag(λ·g⊙g): nothing is left to correct."""
    eta, lam = 0.1, 0.3
    g = torch.tensor([2.0, -1.5, 0.5], dtype=torch.float64)
    base = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    move = torch.tensor([0.4, -0.7, 2.0], dtype=torch.float64)

    def gradient(w):  # of the quadratic through `base` with slope g and that Hessian
        w = w.clone().requires_grad_()
        loss = (g * (w - base)).sum() + 0.5 * (lam * g * g * (w - base) ** 2).sum()
        return torch.autograd.grad(loss, w)[0]

    stale, fresh = -eta * gradient(base), -eta * gradient(base + move)
    here = view(8, {"w": base + move}, {3: {"w": base}})
    # λ per delta is λ per gradient over η.
    outcome = us.FirstOrder(lam=lam / eta).apply([late(*stale.tolist())], {}, here)
    found = outcome.updates[0].delta["w"]
    assert torch.allclose(found, fresh, rtol=1e-12, atol=0)
    # With DC-ASGD's own plus sign the error would be twice what it was, not gone.
    wrong = stale + (lam / eta) * stale * stale * move
    assert torch.allclose(wrong - fresh, 2 * (stale - fresh))


def test_half_the_strength_moves_half_the_way(view, three, late):
    base, now = three(0.0, 0.0, 0.0), three(1.0, -1.0, 0.5)
    stale = torch.tensor([1.0, 2.0, -2.0], dtype=torch.float64)
    there = view(8, now, {3: base})
    full = us.FirstOrder(lam=1.0).apply([late(*stale.tolist())], {}, there).updates[0].delta["w"]
    half = us.FirstOrder(lam=0.5).apply([late(*stale.tolist())], {}, there).updates[0].delta["w"]
    assert torch.allclose(half, (stale + full) / 2)


def test_lam_zero_is_unweighted(view, three, late):
    outcome = us.FirstOrder(lam=0).apply(
        [late(2.0, -4.0, 10.0)], {}, view(8, three(9, 9, 9), {3: three(0, 0, 0)})
    )
    assert outcome.updates[0].delta["w"].tolist() == [2.0, -4.0, 10.0]


@pytest.mark.parametrize(("fallback", "kept"), [("keep", 1), ("drop", 0)])
def test_without_its_base_an_update_falls_back_as_stated(view, three, late, fallback, kept):
    update = late(1.0, 2.0, 3.0)
    outcome = us.FirstOrder(fallback=fallback).apply([update], {}, view(8, three(0, 0, 0)))
    assert outcome.updates == (update,) * kept
    (note,) = outcome.notes
    assert (note.kind, note.client_id, note.base_version) == ("fallback", "a", 3)
    assert note.detail["did"] == fallback
    assert "gone" in note.detail["reason"]


@pytest.mark.parametrize("make", [us.FirstOrder, us.PredictedMove])
def test_refuses_settings_that_make_no_sense(make):
    for lam in (-0.1, math.nan, math.inf):
        with pytest.raises(ConfigError, match="lam"):
            make(lam=lam)
    with pytest.raises(ConfigError, match="fallback"):
        make(fallback="forget")
