"""Clients from a CSV file of samples and clients."""

import numpy as np
import pytest

from unstale.errors import ConfigError
from unstale.sim.partition import ByFile

LABELS = np.arange(6) % 2


def split(tmp_path, text):
    path = tmp_path / "clients.csv"
    path.write_text(text, encoding="utf-8")
    return [part.tolist() for part in ByFile(str(path)).split(LABELS, None, seed=0)]


def test_clients_are_sorted_by_name_and_samples_by_index(tmp_path):
    rows = "\ufeffsample,client\n5,ward b\n0,ward a\n\n2, ward b\n"
    assert split(tmp_path, rows) == [[0], [2, 5]]
    assert split(tmp_path, "sample,client\n0,10\n1,9\n2,10\n") == [[1], [0, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header sample,client. Found an empty file"),
        ("client,sample\n1,1\n", "Found 'client,sample'"),
        ("sample,client\n", "at least one sample"),
        ("sample,client\n6,a\n", "Line 2 .* sample from 0 to 5. Found '6'"),
        ("sample,client\n-1,a\n", "Found '-1'"),
        ("sample,client\n1,a\n1,b\n", "Line 3 .* only one for sample 1"),
        ("sample,client\n1\n", "Line 2 .* should be sample,client. Found '1'"),
        ("sample,client\n1,\n", "Found '1,'"),
    ],
)
def test_wrong_files(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        split(tmp_path, text)


def test_no_file(tmp_path):
    with pytest.raises(ConfigError, match="readable CSV file"):
        ByFile(str(tmp_path / "none.csv")).split(LABELS, None, 0)
    with pytest.raises(ConfigError, match="should name a CSV file"):
        ByFile()
