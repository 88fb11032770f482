"""Data sets: embedded, or read from published files under a data root.

| name | inputs | scaling | test part |
| --- | --- | --- | --- |
| digits | [1, 8, 8] | 0..16 to [0, 1] | 500, drawn once, stratified |
| mnist, fashion_mnist | [1, 28, 28] | by the known mean and deviation | as published |
| blended_mnist, grey_svhn | [1, 28, 28] | as mnist | as of mnist, of svhn |
| cifar10, svhn | [3, 32, 32] | bytes to [0, 1] | as published |
| hapt | [6, 128] | standardised per channel by the training part, within ±10 | last fifth |
| extrasensory | [225] | standardised by its file, within ±20, missing values 0 | last fifth |
| disaster | [3, 64, 64] | bytes to [0, 1] | a fifth, drawn once, stratified |
| topics | [20] | token ids of a generated text, 221 words | generated too |
| ag_news | [40] | token ids of the 10,000 most frequent words of the training part | as published |

"Last fifth" is in time, of every class and user; no seed of a run changes any split.
"""

from unstale.data import ag_news, arrays, blended, cifar, digits, disaster, idx, svhn, topics
from unstale.data.checking import Finding, check, check_one
from unstale.data.dataset import Dataset, Look
from unstale.data.fetching import fetch
from unstale.data.from_arrays import from_arrays
from unstale.data.from_flower import from_flower
from unstale.data.from_huggingface import from_huggingface
from unstale.data.given import as_dataset, from_clients, from_torch, with_clients
from unstale.data.looks import join_looks
from unstale.data.registry import load, names, register
from unstale.data.roots import data_roots
from unstale.data.source import Derived, Download, Layout, Source

__all__ = [
    "Dataset",
    "Derived",
    "Download",
    "Finding",
    "Layout",
    "Look",
    "Source",
    "as_dataset",
    "check",
    "check_one",
    "data_roots",
    "fetch",
    "from_arrays",
    "from_clients",
    "from_flower",
    "from_huggingface",
    "from_torch",
    "join_looks",
    "load",
    "names",
    "register",
    "with_clients",
]

_SOURCES: dict[str, Source | Derived] = {
    "digits": digits.SOURCE,
    "mnist": idx.MNIST,
    "fashion_mnist": idx.FASHION_MNIST,
    "cifar10": cifar.SOURCE,
    "svhn": svhn.SOURCE,
    "hapt": arrays.HAPT,
    "extrasensory": arrays.EXTRASENSORY,
    "disaster": disaster.SOURCE,
    "blended_mnist": blended.BLENDED_MNIST,
    "grey_svhn": blended.GREY_SVHN,
    "topics": topics.SOURCE,
    "ag_news": ag_news.SOURCE,
}
for _name, _source in _SOURCES.items():
    register(_name, _source)
