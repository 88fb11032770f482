"""Plain models of token ids are made to take vectors, or it is said why they cannot."""

import copy

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ModelError
from unstale.params import params_of
from unstale.training.as_token_model import as_token_model
from unstale.training.token_models import TokenModel, embedding_names

TEXTS = torch.tensor([[1, 2, 3], [0, 0, 4], [5, 1, 1]])


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(6, 4)
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.fc = nn.Linear(5, 3)

    def forward(self, tokens):
        return self.fc(self.lstm(self.words(tokens))[0][:, -1])


class Masked(Recurrent):
    def forward(self, tokens):
        shown = (tokens != 0).unsqueeze(-1).float()
        return self.fc((self.words(tokens) * shown).mean(1)[:, :1].expand(-1, 5))


class Several(Recurrent):
    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(3, 4)


def test_ids_and_vectors_give_the_same():
    plain = Recurrent()
    before = copy.deepcopy(plain.state_dict())
    both = as_token_model(plain, TEXTS)
    assert isinstance(both, TokenModel)
    assert type(both).__name__ == "Recurrent"
    assert torch.equal(both(both.embed(TEXTS)), plain(TEXTS))
    assert embedding_names(both) == {"words.weight"}
    assert list(both.state_dict()) == list(before)
    again = copy.deepcopy(both)
    assert torch.equal(again(again.embed(TEXTS)), plain(TEXTS))
    # The model of the user is as it was.
    assert not isinstance(plain, TokenModel)
    assert type(plain.words) is nn.Embedding
    assert both.training


def test_training_on_ids_is_that_of_the_plain_model():
    plain, spec = Recurrent(), us.LocalSpec(lr=0.5, epochs=2)
    both = as_token_model(plain, TEXTS)
    y = torch.tensor([0, 1, 2])
    one = us.local_update(plain, params_of(plain), TEXTS, y, spec)
    two = us.local_update(both, params_of(both), TEXTS, y, spec)
    assert all(torch.equal(one[name], two[name]) for name in one)
    # Vectors train what lies behind the embedding.
    vectors = both.embed(TEXTS).detach()
    three = us.local_update(both, params_of(both), vectors, y, spec)
    assert float(three["fc.weight"].abs().sum()) > 0
    assert float(three["words.weight"].abs().sum()) == 0


def test_a_token_model_is_returned_as_it_is():
    both = as_token_model(Recurrent(), TEXTS)
    assert as_token_model(both, TEXTS) is both


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (nn.Linear(3, 3), "0 embedding layers"),
        (Several(), "2 embedding layers: words, places"),
        (Masked(), "that it fails with vectors"),
        (nn.Embedding(6, 4), "an embedding of its own kind"),
    ],
    ids=["none", "several", "mask", "nothing else"],
)
def test_other_models_are_refused(model, found):
    with pytest.raises(ModelError, match="takes token ids and their vectors") as caught:
        as_token_model(model, TEXTS)
    assert found in str(caught.value)
