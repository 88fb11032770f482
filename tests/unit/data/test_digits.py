import hashlib
import subprocess
import sys

import torch

from unstale import data
from unstale.data import digits as digits_file


def test_shapes_scale_and_shares() -> None:
    digits = data.load("digits", "/no/root/needed")
    assert digits.input_shape == (1, 8, 8)
    assert (len(digits.y_train), len(digits.y_test)) == (1297, 500)
    assert (float(digits.x_train.min()), float(digits.x_train.max())) == (0.0, 1.0)
    assert digits.classes == tuple("0123456789")
    whole = torch.bincount(digits.y_train) + torch.bincount(digits.y_test)
    share = torch.bincount(digits.y_test) - whole * 500 / 1797
    assert float(share.abs().max()) < 1


def test_nothing_is_lost_and_pairs_stay_together() -> None:
    from sklearn.datasets import load_digits

    published = load_digits()
    digits = data.load("digits")
    images = torch.cat([digits.x_train, digits.x_test]).mul(16).long().reshape(-1, 64)
    labels = torch.cat([digits.y_train, digits.y_test])
    ours = sorted(
        (*row, label) for row, label in zip(images.tolist(), labels.tolist(), strict=True)
    )
    theirs = sorted(
        (*map(int, row), int(label))
        for row, label in zip(published.data, published.target, strict=True)
    )
    assert ours == theirs


def test_the_split_never_changes_and_takes_no_notice_of_the_global_generator() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    digits = data.load("digits")
    assert torch.equal(state, torch.get_rng_state())
    # Another value means that every published number on digits is void.
    digest = hashlib.sha256(digits.y_test.numpy().tobytes() + digits.x_test.numpy().tobytes())
    assert digest.hexdigest()[:16] == "10b1788b708b89f1"


def test_they_are_read_without_importing_scikit_learn() -> None:
    code = (
        "import sys; from unstale import data; data.load('digits'); print('sklearn' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_where_the_file_is_elsewhere_scikit_learn_reads_them(monkeypatch) -> None:
    images, labels = digits_file.published_digits()
    monkeypatch.setattr(digits_file, "find_spec", lambda name: None)
    again, again_labels = digits_file.published_digits()
    assert (images == again).all()
    assert (labels == again_labels).all()
