"""Shared by the tests of the documentation: registries are as they were after each test."""

import pytest

from unstale.data import registry as data_registry
from unstale.methods import METHODS
from unstale.models import registry as model_registry


@pytest.fixture(autouse=True)
def _registries_as_before():
    """Examples register data sets, models and methods; other tests should not meet them."""
    tables = [METHODS, data_registry.SOURCES, model_registry.BUILDERS]
    before = [dict(table) for table in tables]
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
