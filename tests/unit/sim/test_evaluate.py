import sys

import pytest
import torch
from torch import nn

from unstale.sim.evaluate import evaluate
from unstale.training.losses import cross_entropy


class Echo(nn.Module):
    """The input is the output, plus a weight that does nothing but be there."""

    def __init__(self):
        super().__init__()
        self.add = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return x + self.add


# What the model says, and what is true: rows are logits over three classes.
OUTPUTS = torch.eye(3)[[0, 0, 1, 2, 2]] * 5
LABELS = torch.tensor([0, 1, 1, 1, 0])


def scores(outputs=OUTPUTS, labels=LABELS, affected=(1,), num_classes=3, **params):
    given = params or {"add": torch.zeros(3)}
    return evaluate(Echo(), given, outputs, labels, num_classes, affected, cross_entropy)


def test_by_hand():
    found = scores()
    assert found.accuracy == 2 / 5
    assert found.affected_accuracy == 1 / 3
    assert found.class_accuracy == (1 / 2, 1 / 3, None)  # no test sample of class 2
    wanted = cross_entropy(OUTPUTS, LABELS)
    assert found.loss == pytest.approx(float(wanted), abs=1e-6)


def test_several_affected_classes_count_by_samples():
    assert scores(affected=(0, 1)).affected_accuracy == 2 / 5
    assert scores(affected=()).affected_accuracy is None
    assert scores(affected=(2,)).affected_accuracy is None


def test_given_weights_count_not_the_models():
    model = Echo()
    nn.init.constant_(model.add, 3.0)
    moved = {"add": torch.tensor([0.0, 100.0, 0.0])}
    found = evaluate(model, moved, OUTPUTS, LABELS, 3, (1,), cross_entropy)
    assert found.class_accuracy == (0.0, 1.0, None)
    assert model.add.tolist() == [3.0] * 3


@pytest.mark.parametrize("chunk", [1, 2, 5, 7])
def test_chunks_change_nothing(chunk, monkeypatch):
    whole = scores()
    # By its name: in the package the function hides the module.
    monkeypatch.setattr(sys.modules["unstale.sim.evaluate"], "CHUNK", chunk)
    found = scores()
    assert found.class_accuracy == whole.class_accuracy
    assert found.loss == pytest.approx(whole.loss, abs=1e-6)  # uneven chunks weigh by samples


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_none(bad):
    found = scores(add=torch.tensor([bad, 0.0, 0.0]))
    assert found.loss is None
    assert 0 <= found.accuracy <= 1
