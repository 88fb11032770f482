import math

import pytest
import torch
from torch import nn

from unstale import models
from unstale.audit import AuditPlan, audit_privacy
from unstale.audit.attacks import Matching
from unstale.audit.baselines import HELD_OUT, MEAN, NOISE, baselines, split_held_out
from unstale.audit.federation import sent_updates, versions_of
from unstale.audit.metrics import Quality
from unstale.audit.page import build_page
from unstale.audit.pictures import strips_of
from unstale.audit.result import FIRST, LAST, OTHER, UPDATE, Labels, PrivacyAudit, Size
from unstale.audit.verdict import judge
from unstale.check.trial import Client
from unstale.errors import ConfigError
from unstale.inversion import InputSpec, Inversion
from unstale.params import add, params_of, weighted_mean
from unstale.privacy import Protection
from unstale.training.local import LocalSpec, local_update

INPUTS = InputSpec((1, 4, 4), 3, 0.0, 1.0)
LOCAL = LocalSpec(lr=0.2, steps=2)


def client(n, classes=(0, 1, 2), seed=0):
    rng = torch.Generator().manual_seed(seed)
    y = torch.tensor([classes[i % len(classes)] for i in range(n)])
    centres = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(99))
    x = centres[y] + 0.15 * torch.randn(n, 1, 4, 4, generator=rng)
    return Client(x.clamp(0, 1), y)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3))


def small(**changes):
    settings = {
        "sizes": (1, None),
        "updates": 2,
        "begin": 1,
        "every": 1,
        "matching": Matching(iterations=60),
    }
    return AuditPlan(**{**settings, **changes})


def run(plan=None, **changes):
    given = {
        "local": LOCAL,
        "inputs": INPUTS,
        "clients": [client(8, (0,), 1), client(8, (0,), 2), client(12, seed=3)],
        "attacked": (0, 1),
        "known": client(60, seed=4),
        "held_out": client(60, seed=5),
        "inversion": Inversion(iterations=40, warm_iterations=10, min_samples=4),
        "title": "tiny <b>",
    }
    return audit_privacy(model(), plan=plan or small(), **{**given, **changes})


@pytest.fixture(scope="module")
def found():
    return run()


def test_every_attack_and_baseline_is_measured_for_each_size(found):
    assert [size.samples for size in found.sizes] == [1, 8]
    names = [FIRST, LAST, UPDATE, NOISE, MEAN, HELD_OUT, OTHER]
    for size in found.sizes:
        assert list(size.rows) == names
        assert all(math.isfinite(quality.mse) for quality in size.rows.values())
        assert size.rows[LAST].candidates == size.samples + 10
    one = found.sizes[0].rows
    assert one[UPDATE].mse < 0.02 < one[NOISE].mse  # one sample of a small model is recovered
    assert one[UPDATE].identified == 1
    assert found.sizes[0].labels.analytic == 1
    assert found.sizes[0].labels.even == pytest.approx(1 / 3)


def test_it_is_the_same_again(found):
    again = run()
    assert [s.rows for s in again.sizes] == [s.rows for s in found.sizes]


def test_protection_hides():
    noisy = run(small(sizes=(1,)), protection=Protection(sparsity=0.9, noise_variance=0.01))
    assert noisy.sizes[0].rows[UPDATE].mse > 0.05
    assert "protected: 90 % left out, noise of deviation 0.1" in " ".join(str(noisy).split())


def test_text_and_json(found):
    text = str(found)
    assert text.startswith("tiny <b>: 2 of 3 clients attacked, on cpu")
    assert "LPIPS" not in text.partition("of matched")[0]  # its weights were not given
    assert "What this does not show:" in text
    plain = found.to_json()
    assert plain["sizes"][0]["rows"][NOISE]["lpips"] is None
    assert plain["verdicts"][0]["shows"] in ("samples", "members", "the class", "nothing")


def test_the_page_is_one_file_with_pictures_and_escapes(found):
    page = build_page(found)
    assert "tiny &lt;b&gt;" in page
    assert "<b>:" not in page
    assert page.count("data:image/png;base64,") == 8 * (1 + 8)
    assert "default-src 'none'" in page
    for outside in ("http://", "https://", "<script", "url("):
        assert outside not in page
    assert "This page holds samples of your data" in page
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inputs": InputSpec((1, 4, 4), 3)}, "both bounds"),
        ({"attacked": ()}, "at least one"),
        ({"attacked": (7,)}, "from 0 to 2"),
        ({"plan": small(sizes=(1, 9))}, "at most 8"),
    ],
)
def test_bad_input(changes, said):
    with pytest.raises(ConfigError, match=said):
        run(**changes)


def test_models_of_tokens_are_refused():
    words = models.build("text_cnn", (5,), 3, seed=0, vocabulary=7)
    with pytest.raises(ConfigError, match="token ids"):
        audit_privacy(
            words, local=LOCAL, inputs=INPUTS, clients=[client(2)], attacked=(0,),
            known=client(2), held_out=client(2),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sizes": ()}, "at least one"),
        ({"sizes": (0,)}, "positive integers"),
        ({"updates": 0}, "`updates`"),
        ({"every": 0}, "`every`"),
    ],
)
def test_wrong_plans(wrong, said):
    with pytest.raises(ConfigError, match=said):
        AuditPlan(**wrong)


def test_versions_are_those_of_federated_averaging():
    clients, start = [client(4, seed=1), client(8, seed=2)], params_of(model())
    first, second = versions_of(model(), clients, (0, 1), local=LOCAL, start=start)
    updates = [local_update(model(), start, c.x, c.y, LOCAL) for c in clients]
    wanted = add(start, weighted_mean(updates, [4.0, 8.0]))
    assert all(torch.equal(first[n], start[n]) for n in start)
    for n in start:
        torch.testing.assert_close(second[n], wanted[n])
    sent = sent_updates(
        model(), [first], clients[0].x, clients[0].y, local=LOCAL, protection=Protection()
    )
    torch.testing.assert_close(sent[0][1], updates[0])


def test_baselines_know_the_class_and_share_nothing_with_candidates():
    held = client(60, seed=5)
    references, candidates = split_held_out(held.x, held.y)
    assert len(references[0]) + len(candidates[0]) == 60
    assert torch.bincount(references[1]).tolist() == torch.bincount(candidates[1]).tolist()
    both = torch.cdist(references[0].flatten(1), candidates[0].flatten(1))
    assert both.min() > 0
    found = baselines(4, torch.tensor([0, 0, 1, 1]), references, inputs=INPUTS)
    mean = references[0][references[1] == 1].mean(0)
    torch.testing.assert_close(found[MEAN][3], mean)
    for i, c in enumerate([0, 0, 1, 1]):
        same = (references[0] == found[HELD_OUT][i]).flatten(1).all(1)
        assert references[1][same].tolist() == [c]
    assert len({tuple(x.flatten().tolist()) for x in found[HELD_OUT]}) == 4
    none = references[1] != 1
    rest = (references[0][none], references[1][none])
    assert set(baselines(2, torch.tensor([1]), rest, inputs=INPUTS)) == {NOISE}


def test_pictures_stand_below_their_originals():
    own = client(3)
    strips = strips_of({"shuffled": own.x.flip(0), "one": own.x[1:2]}, own.x, own.y, INPUTS)
    original, shuffled, one = strips
    assert shuffled.x == original.x
    assert one.x == (original.x[1],) * 3
    assert original.labels == (0, 1, 2)


def quality(**changes):
    plain = {
        "mse": 0.1, "psnr": 10.0, "ssim": 0.1, "lpips": 0.5, "identified": 0.0, "recognised": 0.1,
        "auc": 0.5, "true_positives": 0.0, "pairs": 4, "candidates": 20,
    }  # fmt: skip
    return Quality(**{**plain, **changes})


def rows(last, update=None):
    held = quality(recognised=0.9, identified=0.1, auc=0.55)
    return {LAST: last, UPDATE: update or quality(), NOISE: quality(), HELD_OUT: held}


@pytest.mark.parametrize(
    ("last", "word"),
    [
        (quality(), "nothing"),
        (quality(recognised=0.6), "the class"),
        (quality(recognised=0.4), "nothing"),
        (quality(auc=0.7), "members"),
        (quality(true_positives=0.2), "members"),
        (quality(identified=0.15), "nothing"),
        (quality(identified=0.25, auc=0.9), "samples"),
        (quality(auc=math.nan, true_positives=math.nan), "nothing"),
    ],
)
def test_verdicts(last, word):
    assert judge(16, rows(last), 10).word == word


def test_what_conversion_adds():
    leaking = quality(identified=0.8)
    assert judge(1, rows(leaking), 10).added
    assert not judge(1, rows(leaking, quality(identified=0.8)), 10).added
    assert judge(1, {NOISE: quality()}, 10).word == "no surrogate"
    audit = PrivacyAudit(
        (
            Size(1, 16, rows(leaking), Labels(1.0, 1.0, 0.1)),
            Size(4, 16, rows(leaking, leaking), Labels(1.0, 1.0, 0.1)),
            Size(16, 16, rows(quality(), leaking), Labels(math.nan, 1.0, 0.1)),
            Size(32, 0, {NOISE: quality()}, Labels(math.nan, math.nan, 0.1), failed=3),
        ),
        attacked=3, clients=20, updates=5, steps=5,
    )  # fmt: skip
    said = "\n".join(audit.sentences)
    assert "Clients of 1 sample: surrogates show single samples" in said
    assert "For clients of 1 sample conversion finds more originals" in said
    assert "For clients of 4 samples the update alone shows as much" in said
    assert "For clients of 16 samples the attack on the update alone finds originals" in said
    assert "Clients of 32 samples: no surrogate could be fitted" in said
    assert "Labels, clients of 32" not in said
    assert "What to change" in said
    assert "3 clients have no surrogate" in build_page(audit)
    quiet = PrivacyAudit(
        (Size(1, 16, rows(quality()), Labels(1.0, 1.0, 0.1)),),
        attacked=3, clients=20, updates=5, steps=5,
    )  # fmt: skip
    assert "What to change" not in "\n".join(quiet.sentences)
