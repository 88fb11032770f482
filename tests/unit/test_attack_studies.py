"""The tables of `experiments/attackers` and `experiments/group_conversion`, from rows by hand."""

import doctest
import importlib.util
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def tables_of(study):
    """The module `tables` of a study, under a name of its own."""
    path = EXPERIMENTS / study / "tables.py"
    spec = importlib.util.spec_from_file_location(f"{study}_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("study", ["attackers", "group_conversion"])
def test_examples_hold(study):
    outcome = doctest.testmod(tables_of(study))
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_defences_down_and_attacks_across(monkeypatch):
    tables = tables_of("attackers")
    rows = [
        {"attack": attack, "defence": defence, "method": "convert", "seed": seed, **figures}
        for seed in (0, 1)
        for attack, defence, figures in [
            ("none", "fedavg", {"accuracy": 0.9 + seed / 10, "affected": 0.8}),
            ("none", "median", {"accuracy": 0.7, "affected": 0.1}),
            ("random", "fedavg", {"accuracy": 0.2, "affected": 0.0}),
            ("random", "median", {"accuracy": 0.6, "affected": 0.1}),
        ]
    ]
    assert tables.table("convert", rows).splitlines() == [
        "| defence | no attackers | random |",
        "| --- | --- | --- |",
        "| `fedavg` | 0.950 / 0.800 | 0.200 / 0.000 |",
        "| `median` | 0.700 / 0.100 | 0.600 / 0.100 |",
    ]
    monkeypatch.setattr(tables, "kept", lambda: rows)
    assert tables.undefended("convert") == pytest.approx([0.95, 0.2])
    assert tables.loss("convert", "median", "random") == pytest.approx([0.35])
    assert tables.cost("convert", "median") == pytest.approx([0.7])
    assert tables.by_seed("accuracy", "convert", "fedavg", "none") == pytest.approx([0.9, 1.0])


def test_groups_are_compared_by_error_and_effect():
    tables = tables_of("group_conversion")
    errors = [
        {"way": "stale", "answer": answer, "cosine": 0.1 * answer, "l1": 0.5 + answer}
        for answer in (0, 1, 2)
    ]
    wanted = "| stale, as they came | 0.0000 | 0.1500 | 0.500 | 2.000 |"
    assert tables.error_table(errors).splitlines()[2] == wanted
    one = {"accuracy": 0.9, "affected": 0.8, "affected_half": 0.7, "iterations": 1234}
    rows = [{"method": "groups_of_3", **one}]
    wanted = "| groups of 3 | 0.900 | 0.800 | 0.700 | 1,234 |"
    assert tables.effect_table(rows).splitlines()[2] == wanted
