r"""`topics`: a generated corpus of short texts, embedded: no file, no network.

Words are made up: stop words that all topics use, and words of one topic each. A text of topic
c is drawn word by word. With probability f the next word is the one that follows the last in
this topic, s_c(w), which is fixed; otherwise it is drawn from the topic's own distribution:

$$ p_c(v \mid w) = f\,[v = s_c(w)] + (1 - f)\,p_c(v) $$

where p_c gives stop words, words of topic c and words of other topics fixed shares, and within
each the k-th word a weight of 1/k (Zipf). So both words and their order tell topics apart, and
no word alone does.
"""

import numpy as np
from numpy.typing import NDArray

from unstale.data.dataset import Dataset, int_labels
from unstale.data.source import Files, Layout, Source
from unstale.data.tokens import PADDING
from unstale.seeding import numpy_generator

TOPICS = ("business", "health", "music", "science", "sport", "travel")
NUM_TRAIN, NUM_TEST = 6000, 1500
LENGTH, SHORTEST = 20, 12
STOP_WORDS, WORDS_PER_TOPIC = 40, 30
STOP_SHARE, OTHER_SHARE = 0.5, 0.25
FOLLOWING = 0.4


def vocabulary() -> tuple[str, ...]:
    """Return all words by token id: padding, stop words, then the words of each topic."""
    stop = (f"stop{i}" for i in range(STOP_WORDS))
    topical = (f"{topic}{i}" for topic in TOPICS for i in range(WORDS_PER_TOPIC))
    return (PADDING, *stop, *topical)


def word_shares() -> NDArray[np.float64]:
    """Return how often each topic draws each word `[topics, words]`; padding never."""
    shares = np.zeros((len(TOPICS), len(vocabulary())))
    shares[:, 1 : 1 + STOP_WORDS] = STOP_SHARE * _zipf(STOP_WORDS)
    topical = np.full((len(TOPICS), len(TOPICS)), OTHER_SHARE / (len(TOPICS) - 1))
    np.fill_diagonal(topical, 1 - STOP_SHARE - OTHER_SHARE)
    shares[:, 1 + STOP_WORDS :] = np.kron(topical, _zipf(WORDS_PER_TOPIC)[None, :])
    return shares


def generate(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return one text for each label `[texts, LENGTH]`, filled up with padding.

    The words that follow one another do not depend on `rng`: they belong to the corpus.
    """
    shares = word_shares()
    fixed = numpy_generator(0, "data", "topics", "following")
    words = shares.shape[1]
    following = np.stack([fixed.choice(words, size=words, p=p) for p in shares])
    drawn = np.empty((len(labels), LENGTH), dtype=np.int64)
    for topic, p in enumerate(shares):
        own = labels == topic
        drawn[own] = rng.choice(words, size=(int(own.sum()), LENGTH), p=p)
    follows = rng.random(drawn.shape) < FOLLOWING
    for place in range(1, LENGTH):
        successor = following[labels, drawn[:, place - 1]]
        drawn[:, place] = np.where(follows[:, place], successor, drawn[:, place])
    lengths = rng.integers(SHORTEST, LENGTH + 1, size=len(labels))
    return np.where(np.arange(LENGTH) < lengths[:, None], drawn, 0)


def read_topics(files: Files) -> Dataset:
    """Return the corpus as token ids [20]: 6,000 texts to train, 1,500 to test, 6 topics."""
    parts = {}
    for part, size in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        labels = np.arange(size, dtype=np.int64) % len(TOPICS)
        rng = numpy_generator(0, "data", "topics", part)
        parts[part] = int_labels(generate(labels, rng)), int_labels(labels)
    words = vocabulary()
    return Dataset(
        name="topics",
        x_train=parts["train"][0],
        y_train=parts["train"][1],
        x_test=parts["test"][0],
        y_test=parts["test"][1],
        classes=TOPICS,
        low=0.0,
        high=float(len(words) - 1),
        vocabulary=words,
    )


def _zipf(words: int) -> NDArray[np.float64]:
    weights = 1 / np.arange(1, words + 1, dtype=np.float64)
    return np.asarray(weights / weights.sum())


SOURCE = Source(
    summary="generated texts of 20 made-up words: 6,000 + 1,500, 6 topics",
    layouts=(Layout(read_topics),),
)
