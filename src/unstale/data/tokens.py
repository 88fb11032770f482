"""Words and token ids: a small tokenizer, a vocabulary, and texts as rows of ids."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

PADDING, UNKNOWN = "<pad>", "<unknown>"
"""The first two entries of a vocabulary: what fills texts up, and any word that is not in it."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case: letters and digits, with apostrophes between.

    Example:
        >>> words_of("It's Wall-Street's 2nd BEST day_off.")
        ["it's", 'wall', "street's", '2nd', 'best', 'day', 'off']
    """
    return _WORD.findall(text.lower())


def most_frequent(texts: Iterable[Sequence[str]], size: int) -> tuple[str, ...]:
    """Return a vocabulary: padding, unknown, then the most frequent words of the texts.

    Words of equal frequency are in alphabetical order, so that the order of the texts does not
    matter.

    Args:
        texts: The words of each text.
        size: The most entries, padding and unknown included.

    Example:
        >>> most_frequent([["a", "b"], ["b", "c"]], 4)
        ('<pad>', '<unknown>', 'b', 'a')
    """
    counts = Counter(word for text in texts for word in text)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return (PADDING, UNKNOWN, *ordered[: size - 2])


def token_rows(
    texts: Sequence[Sequence[str]], vocabulary: Sequence[str], length: int
) -> NDArray[np.int64]:
    """Return each text as token ids `[texts, length]`: cut, or filled up with padding.

    Example:
        >>> token_rows([["b", "x"]], ("<pad>", "<unknown>", "b"), 3).tolist()
        [[2, 1, 0]]
    """
    ids: Mapping[str, int] = {word: i for i, word in enumerate(vocabulary)}
    unknown = ids[UNKNOWN]
    rows = np.full((len(texts), length), ids[PADDING], dtype=np.int64)
    for row, text in zip(rows, texts, strict=True):
        found = [ids.get(word, unknown) for word in text[:length]]
        row[: len(found)] = found
    return rows
