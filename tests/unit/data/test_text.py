"""Text as token ids: the tokenizer, the generated corpus, and the files of AG News."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from unstale import data
from unstale.data import topics
from unstale.data.tokens import PADDING, UNKNOWN, most_frequent, token_rows, words_of
from unstale.errors import ConfigError, DataError
from unstale.seeding import numpy_generator

TRAIN = (
    '"3","Oil prices soar","AFP - Oil\\hit a ""record"", again."\n'
    '"2","Oil Kings win","The Kings won\nthe final."\n'
)
TEST = '"1","Kings of oil","Nobody knows, it\'s said."\n'


@pytest.fixture
def news(tmp_path):
    """Write the two files and return their root."""

    def write(train=TRAIN, test=TEST):
        folder = tmp_path / "ag_news"
        folder.mkdir(exist_ok=True)
        (folder / "train.csv").write_bytes(train.encode("utf-8", "surrogateescape"))
        (folder / "test.csv").write_bytes(test.encode())
        return tmp_path

    return write


def test_words():
    assert words_of("Don't STOP: 3-2, naïve_idea") == ["don't", "stop", "3", "2", "naïve", "idea"]
    assert words_of(" -- ") == []


def test_the_vocabulary_does_not_depend_on_the_order_of_texts():
    texts = [["b", "a"], ["c", "b"], ["a", "d"]]
    assert most_frequent(texts, 5) == (PADDING, UNKNOWN, "a", "b", "c")
    assert most_frequent(texts[::-1], 5) == most_frequent(texts, 5)


def test_texts_are_cut_or_filled_up():
    rows = token_rows([["a", "b", "a", "z"], ["z"], []], (PADDING, UNKNOWN, "a", "b"), 3)
    assert rows.tolist() == [[2, 3, 2], [1, 0, 0], [0, 0, 0]]


def test_ag_news_is_read(news):
    found = data.load("ag_news", news())
    assert found.input_shape == (40,)
    assert found.y_train.tolist() == [2, 1]
    assert found.y_test.tolist() == [0]
    words = found.vocabulary
    assert words[:4] == (PADDING, UNKNOWN, "oil", "kings")
    told = [words[i] for i in found.x_train[0]]
    assert told[:8] == ["oil", "prices", "soar", "afp", "oil", "hit", "a", "record"]
    assert set(told[9:]) == {PADDING}
    # The test part has no say in the vocabulary.
    assert [words[i] for i in found.x_test[0][:4]] == ["kings", UNKNOWN, "oil", UNKNOWN]


@pytest.mark.parametrize(
    ("train", "says"),
    [
        ("", "no row"),
        ('"5","a","b"\n', "labels from 5 to 5"),
        ('"1","a","b"\n"World","a","b"\n', "row 2"),
        ('"1"\n', "row 1"),
        ('"1","a\n', "Error"),
        ('"1","\udcff","b"\n', "UnicodeDecodeError"),
    ],
)
def test_damaged_files_of_ag_news(news, train, says):
    with pytest.raises(DataError, match=says):
        data.load("ag_news", news(train))


def test_topics():
    found, again = data.load("topics"), data.load("topics")
    assert torch.equal(found.x_train, again.x_train)
    assert (len(found.y_train), len(found.y_test), found.input_shape) == (6000, 1500, (20,))
    assert found.y_train.bincount().tolist() == [1000] * 6
    assert found.x_train.dtype == torch.int64
    lengths = (found.x_train > 0).sum(1)
    assert (int(lengths.min()), int(lengths.max())) == (12, 20)
    # Words only at the front, padding behind.
    assert bool((found.x_train[:, 1:] > 0).le(found.x_train[:, :-1] > 0).all())


def test_topics_share_words_and_differ_in_what_follows_what():
    labels = np.repeat(np.arange(len(topics.TOPICS)), 400)
    x = topics.generate(labels, numpy_generator(3, "test"))
    shares = topics.word_shares()
    assert np.allclose(shares.sum(1), 1)
    pairs = [
        {(int(a), int(b)) for a, b in pairwise(t) if a and b}
        for t in (x[labels == c].reshape(-1) for c in range(2))
    ]
    words = [{int(w) for w in x[labels == c].reshape(-1)} for c in range(2)]
    assert len(words[0] & words[1]) / len(words[0]) > 0.9
    assert len(pairs[0] & pairs[1]) / len(pairs[0]) < 0.5


def test_a_data_set_of_text_is_checked():
    x, y = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 1])

    def make(x, high, words=("<pad>", "a", "b")):
        return data.Dataset("own", x, y, x, y, ("c", "d"), 0.0, high, vocabulary=words)

    assert make(x, 2.0).input_shape == (2,)
    with pytest.raises(DataError, match="token ids from 0 to 2"):
        make(x, 5.0)
    with pytest.raises(DataError, match="int64 inputs"):
        make(x.float(), 2.0)
    with pytest.raises(DataError, match=r"inputs in \[0.0, 2.0\]"):
        make(x + 1, 2.0)
    with pytest.raises(DataError, match="float32 inputs"):
        data.Dataset("own", x, y, x, y, ("c", "d"), 0.0, 2.0)


def test_two_looks_of_text_share_their_words():
    x, y = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 1])

    def make(words):
        return data.Dataset("own", x, y, x, y, ("c", "d"), 0.0, 2.0, vocabulary=words)

    old, other = make(("<pad>", "a", "b")), make(("<pad>", "b", "a"))
    assert data.join_looks(old, old).vocabulary == old.vocabulary
    with pytest.raises(ConfigError, match="of the same words"):
        data.join_looks(old, other)
