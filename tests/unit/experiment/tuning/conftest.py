"""The tiny experiment on seeds for tables, with something to tune."""

import pytest


@pytest.fixture
def tuned_table(table, _clouds):
    table["seeds"] = [10]
    table["methods"] = [
        {"name": "unweighted"},
        {"name": "first_order", "label": "taylor", "lam": 0.5, "tune": {"lam": [0.25, 4]}},
        {"name": "weighted", "tune": [{}, {"b": 1.0}]},
    ]
    return table
