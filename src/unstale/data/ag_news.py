"""AG News: headlines and first sentences of news in four classes, from the published CSV files.

Each row is ``"class","title","description"`` without a header, classes 1 to 4. Other text
classification sets of the same collection (Zhang, Zhao and LeCun, 2015) have the same form.
"""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unstale.data.dataset import Dataset, int_labels
from unstale.data.faults import check_labels, damaged
from unstale.data.source import Download, Files, Layout, Source
from unstale.data.tokens import most_frequent, token_rows, words_of

CLASSES = ("World", "Sports", "Business", "Sci/Tech")
LENGTH = 40
"""Words of a text that are kept: nearly all of most texts."""
VOCABULARY = 10_000


def read_csv(path: Path, classes: int) -> tuple[list[list[str]], NDArray[np.int64]]:
    """Return the words of each row's title and description, and labels from 0.

    Raises:
        DataError: When a row is not a class with one or more texts; names its number.
    """
    should = f"be UTF-8 rows of a class from 1 to {classes} and one or more texts"
    texts: list[list[str]] = []
    labels: list[int] = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.reader(file, strict=True), start=1):
                if len(row) < 2 or not row[0].isdecimal():
                    raise damaged(path, should, f"row {number}: {row!r:.60}")
                labels.append(int(row[0]))
                texts.append(words_of(" ".join(row[1:])))
    except (csv.Error, UnicodeDecodeError) as error:
        raise damaged(path, should, f"{type(error).__name__}: {error}") from error
    if not labels:
        raise damaged(path, should, "no row")
    check_labels(path, min(labels), max(labels), 1, classes)
    return texts, np.array(labels, dtype=np.int64) - 1


def read_ag_news(files: Files) -> Dataset:
    """Return AG News as token ids [40], train and test as published.

    The vocabulary is that of the training part: its 10,000 most frequent words, padding and
    unknown included. A server knows it, as it knows the model that embeds the words.
    """
    train, y_train = read_csv(files["train.csv"], len(CLASSES))
    test, y_test = read_csv(files["test.csv"], len(CLASSES))
    words = most_frequent(train, VOCABULARY)
    return Dataset(
        name="ag_news",
        x_train=int_labels(token_rows(train, words, LENGTH)),
        y_train=int_labels(y_train),
        x_test=int_labels(token_rows(test, words, LENGTH)),
        y_test=int_labels(y_test),
        classes=CLASSES,
        low=0.0,
        high=float(len(words) - 1),
        vocabulary=words,
    )


_FILES = {
    "train.csv": "md5:b1a00f826fdfbd249f79597b59e1dc12",
    "test.csv": "md5:d52ea96a97a2d943681189a97654912d",
}
_BASE = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"

SOURCE = Source(
    summary="news of up to 40 words as token ids: 120,000 + 7,600, 4 classes",
    layouts=(Layout(read_ag_news, _FILES, ("ag_news", "ag_news_csv", "AG_NEWS")),),
    downloads=tuple(
        Download((f"{_BASE}/{name}",), f"ag_news/{name}", checksum)
        for name, checksum in _FILES.items()
    ),
)
