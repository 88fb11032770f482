import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn import functional as F

from unstale.audit.metrics import (
    Judge,
    Lpips,
    Match,
    identified,
    match,
    mean_quality,
    mean_squared_errors,
    membership,
    psnr,
    recognised,
    ssim,
    trained_classifier,
    unit_range,
)
from unstale.audit.metrics.membership import by_class
from unstale.audit.metrics.quality import NOTHING
from unstale.errors import ConfigError
from unstale.inversion import InputSpec

SPEC = InputSpec((2,), 2, 0.0, 1.0)


def images(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_errors_of_every_pair_equal_the_plain_formula():
    a, b = images(3, 1, 4, 4), images(5, 1, 4, 4, seed=1)
    plain = torch.tensor([[float(((x - y) ** 2).mean()) for y in b] for x in a])
    torch.testing.assert_close(mean_squared_errors(a, b), plain)
    assert mean_squared_errors(a, a).diagonal().tolist() == [0, 0, 0]


def test_psnr_and_ssim_are_those_of_torchmetrics():
    metrics = pytest.importorskip("torchmetrics.functional.image")
    a, b = images(2, 3, 32, 32), images(2, 3, 32, 32, seed=1)
    mse = float(mean_squared_errors(a[:1], b[:1]))
    wanted = metrics.peak_signal_noise_ratio(a[:1], b[:1], data_range=1.0)
    assert psnr(mse) == pytest.approx(float(wanted), rel=1e-5)
    assert math.isinf(psnr(0.0))
    found = ssim(a, b)
    for i in range(2):
        one = metrics.structural_similarity_index_measure(
            a[i : i + 1], b[i : i + 1], data_range=1.0
        )
        assert float(found[i]) == pytest.approx(float(one), rel=1e-5)
    small = images(2, 1, 8, 8)
    assert ssim(small, small).tolist() == pytest.approx([1, 1])  # where 11 × 11 does not fit
    assert ssim(images(2, 6), images(2, 6)) is None
    assert ssim(images(2, 1, 4, 4), images(2, 1, 4, 4)) is None


def test_unit_range_needs_bounds():
    with pytest.raises(ConfigError, match="both bounds"):
        unit_range(torch.zeros(1), InputSpec((1,), 2, low=0.0))


def test_a_match_uses_no_original_twice():
    # All three are nearest to the first original.
    errors = torch.tensor([[0.1, 0.5, 0.9], [0.2, 0.3, 0.9], [0.0, 0.9, 0.4]])
    found = match(errors)
    assert sorted(found.originals) == [0, 1, 2]
    assert float(sum(errors[p] for p in zip(found.recovered, found.originals, strict=True))) == (
        pytest.approx(0.1 + 0.3 + 0.4)
    )
    assert match(errors[:, :2]).recovered != match(errors[:2]).recovered
    assert len(match(errors[:2])) == 2


def test_an_original_is_found_only_if_nothing_else_is_as_near():
    own = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    pairs = Match((0, 1), (0, 1))
    assert identified(own, own, torch.rand(5, 2), pairs).all()
    twin = own[:1].clone()  # the same sample, elsewhere
    assert identified(own, own, twin, pairs).tolist() == [False, True]
    assert not identified(own.flip(0), own, twin, pairs).any()


def test_auc_is_that_of_scikit_learn():
    rng = torch.Generator().manual_seed(0)
    members = torch.randn(30, generator=rng) + 0.5
    others = torch.randn(200, generator=rng)
    members[:5] = others[:5]  # ties
    found = membership([(members, others)])
    truth = [1] * 30 + [0] * 200
    assert found.auc == pytest.approx(roc_auc_score(truth, torch.cat([members, others])))
    passed = (members > others.sort().values[-3]).float().mean()  # two of 200 may pass
    assert found.true_positives == pytest.approx(float(passed))
    assert (found.members, found.others) == (30, 200)


def test_membership_tells_all_none_and_nothing():
    low, high = torch.zeros(4), torch.ones(4)
    assert membership([(high, low)]).auc == 1
    assert membership([(low, high)]).auc == 0
    assert membership([(low, low)]).true_positives == 0
    # Groups have thresholds of their own: what is high in one is low in the other.
    assert membership([(high, low), (high + 9, low + 9)]).true_positives == 1
    assert math.isnan(membership([(low[:0], low)]).auc)


def test_scores_compare_within_the_class():
    own = (torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]))
    others = (torch.tensor([[0.1], [0.2], [0.9]]), torch.tensor([0, 0, 1]))
    groups = by_class(torch.tensor([[0.0], [1.0]]), own, others)
    assert [(len(m), len(o)) for m, o in groups] == [(1, 2), (1, 1)]
    assert membership(groups).auc == 1


def test_a_classifier_learns_and_the_given_model_stays():
    x = 20 * torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    model = nn.Linear(2, 2)
    nn.init.zeros_(model.weight)
    before = model.weight.detach().clone()
    judge = trained_classifier(model, x, y, steps=400)
    assert recognised(judge, x, y).float().mean() > 0.9
    assert torch.equal(model.weight, before)


def test_quality_of_the_originals_and_of_nothing():
    own, y = torch.tensor([[0.1, 0.9], [0.8, 0.3]]), torch.tensor([0, 1])
    pool = (torch.tensor([[0.5, 0.5], [0.4, 0.4]]), torch.tensor([0, 1]))
    judge = Judge(SPEC, pool, nn.Identity())
    found = judge.measure(own.flip(0), own, y)
    assert (found.mse, found.identified, found.auc, found.true_positives) == (0, 1, 1, 1)
    assert (found.pairs, found.candidates) == (2, 4)
    assert found.recognised == 0  # both classes are seen as the other
    assert math.isnan(found.ssim)
    assert math.isnan(found.lpips)
    worse = judge.measure(own.new_full((2, 2), 1.0), own, y)
    assert worse.mse > 0.1
    assert math.isnan(judge.measure(own * math.nan, own, y).mse)
    assert mean_quality([found, worse, NOTHING]).mse == pytest.approx(worse.mse / 2)


CHANNELS, KERNELS, PLACES = (3, 64, 192, 384, 256, 256), (11, 5, 3, 3, 3), (0, 3, 6, 8, 10)


def alexnet(seed=0):
    """Random weights under the names of the file, and torch's own layers with them."""
    rng = np.random.default_rng(seed)
    arrays, layers = {}, []
    for i, place in enumerate(PLACES):
        shape = (CHANNELS[i + 1], CHANNELS[i], KERNELS[i], KERNELS[i])
        scale = 1 / math.sqrt(np.prod(shape[1:]))
        arrays[f"features.{place}.weight"] = rng.normal(0, scale, shape).astype("f")
        arrays[f"features.{place}.bias"] = rng.normal(0, 0.1, shape[:1]).astype("f")
        arrays[f"lpips.lin{i}.model.1.weight"] = rng.random((1, shape[0], 1, 1)).astype("f")
        stride, padding = (4, 2) if i == 0 else (1, KERNELS[i] // 2)
        layer = nn.Conv2d(shape[1], shape[0], shape[2], stride, padding)
        layer.weight.data, layer.bias.data = (
            torch.from_numpy(arrays[f"features.{place}.{n}"]) for n in ("weight", "bias")
        )
        layers.append(layer)
    return arrays, layers


def test_lpips_is_its_formula(tmp_path):
    arrays, layers = alexnet()
    path = tmp_path / "weights.npz"
    np.savez(path, **arrays)
    a, b = images(2, 1, 28, 28), images(2, 1, 28, 28, seed=1)

    def features(x):
        x = F.interpolate(x, size=(64, 64), mode="bilinear").repeat(1, 3, 1, 1) * 2 - 1
        shift = torch.tensor([-0.030, -0.088, -0.188]).reshape(3, 1, 1)
        x = (x - shift) / torch.tensor([0.458, 0.448, 0.450]).reshape(3, 1, 1)
        for i, layer in enumerate(layers):
            x = torch.relu(layer(F.max_pool2d(x, 3, 2) if i in (1, 2) else x))
            yield F.normalize(x, dim=1)

    wanted = torch.zeros(2)
    for i, (one, other) in enumerate(zip(features(a), features(b), strict=True)):
        head = torch.from_numpy(arrays[f"lpips.lin{i}.model.1.weight"]).reshape(-1, 1, 1)
        wanted += ((one - other) ** 2 * head).sum(1).mean((1, 2)).detach()
    distance = Lpips(path)
    torch.testing.assert_close(distance(a, b), wanted, rtol=1e-4, atol=1e-6)
    assert distance(a, a).tolist() == [0, 0]


def test_lpips_says_what_is_wrong_with_its_file(tmp_path):
    arrays, _ = alexnet()
    with pytest.raises(ConfigError, match="There is none at"):
        Lpips(tmp_path / "none.npz")
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"PK nothing of the kind")
    with pytest.raises(ConfigError, match="plain arrays"):
        Lpips(bad)
    np.savez(bad, **{**arrays, "features.3.bias": np.array([object()])})
    with pytest.raises(ConfigError, match="plain arrays"):  # it would take pickle to read it
        Lpips(bad)
    del arrays["features.3.bias"]
    np.savez(bad, **arrays)
    with pytest.raises(ConfigError, match=r"`features.3.bias` as floats \(192,\). Found none"):
        Lpips(bad)
