"""Both forms of unrolling are `local_update`, and both can be differentiated."""

import pytest
import torch
from torch import nn

import unstale as us
from unstale.inversion.unroll import batched, one_by_one, stacked
from unstale.seeding import generator

RECIPES = [
    us.LocalSpec(lr=0.1, momentum=0.5, steps=4),
    us.LocalSpec(lr=0.1, steps=5, batch_size=2, prox=0.3, weight_decay=0.1),
    us.LocalSpec(lr=0.01, steps=3, optimizer="adam", loss="mse"),
]


@pytest.mark.parametrize("local", RECIPES)
@pytest.mark.parametrize("frozen", [False, True])
def test_the_forms_agree(local, frozen):
    model = nn.Sequential(
        nn.Conv1d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 3)
    ).double()
    model[0].weight.requires_grad_(not frozen)
    rng = generator(0, "unroll")

    def draw(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    weights = {n: draw(3, *p.shape) * 0.5 for n, p in model.named_parameters()}
    x, logits = draw(3, 5, 2, 4).requires_grad_(), draw(3, 5, 3).requires_grad_()
    found = {}
    for name, unroll in {
        "plain": one_by_one(model, local),
        "batched": batched(model, local),
    }.items():
        deltas = unroll(stacked(model, local, weights, x, logits.softmax(-1)))
        found[name] = (deltas, *torch.autograd.grad((deltas**2).sum(), [x, logits]))
    for a, b in zip(found["plain"], found["batched"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    assert found["plain"][1].abs().max() > 0
    start = {n: w[1] for n, w in weights.items()}
    expected = us.local_update(model, start, x[1].detach(), logits[1].detach().softmax(-1), local)
    trained = [d.reshape(-1) for n, d in expected.items() if not (frozen and n == "0.weight")]
    torch.testing.assert_close(found["batched"][0][1], torch.cat(trained), rtol=1e-9, atol=1e-12)
