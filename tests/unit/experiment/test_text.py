"""Experiments on token ids: every method runs, a stopped run resumes, and the page shows it."""

import json

import pytest
import torch

from unstale import data
from unstale.data import registry
from unstale.errors import ConfigError
from unstale.experiment import check as checking
from unstale.experiment import check_experiment, parse
from unstale.methods.registry import METHODS
from unstale.report import write_report
from unstale.run_folder.lines import Lines
from unstale.seeding import generator

WORDS = ("<pad>", *(f"word{i}" for i in range(12)))
CONVERT = {
    "name": "convert",
    "inversion": {
        "iterations": 8, "warm_iterations": 3, "min_samples": 4, "max_samples": 8,
        "restart_loss": 0.0, "max_loss": 0.99,
    },
}  # fmt: skip


@pytest.fixture
def texts(monkeypatch, table):
    """Register a tiny data set of text, and return an experiment on it."""

    def read(files):
        y = torch.arange(120) % 4
        own = 1 + 3 * y[:, None] + torch.randint(3, (120, 6), generator=generator(0, "test"))
        x = torch.where(torch.rand(own.shape, generator=generator(1, "test")) < 0.3, 0, own)
        parts = x[:80], y[:80], x[80:], y[80:]
        return data.Dataset("texts", *parts, tuple("abcd"), 0.0, 12.0, vocabulary=WORDS)

    monkeypatch.setitem(registry.SOURCES, "texts", data.Source("made up", (data.Layout(read),)))
    return {
        **table,
        "data": {"name": "texts"},
        "model": {"name": "text_cnn", "dim": 4, "channels": 5},
        "seeds": [0],
        "overlap": False,  # slow clients are absent while they work: stand-ins
        "oracle": True,
    }


def lines(folder, label):
    found = Lines(folder.lines_path(label, 0)).read()
    return [{k: v for k, v in line.to_json().items() if k != "seconds"} for line in found]


def test_every_method_runs(run_tiny, texts):
    others = [{"name": name} for name in METHODS if name != "convert"]
    folder = run_tiny("a", table={**texts, "methods": [*others, CONVERT], "rounds": 5})
    for name in METHODS:
        last = lines(folder, name)[-1]
        assert (last["round"], last["accuracy"] is None) == (5, False), name


def test_by_dirichlet_and_the_page(run_tiny, texts):
    mixed = {"kind": "dirichlet", "clients": 8, "samples": 8, "alpha": 0.1}
    folder = run_tiny(
        "a",
        table={**texts, "partition": mixed, "methods": [CONVERT], "storage": {"surrogates": True}},
    )
    found = json.loads(folder.surrogates_path("convert", 0).read_text())
    assert found["clients"][0]["shape"] == [4, 6]
    write_report(folder.path)
    assert "4 × 6" in (folder.path / "report.html").read_text()


def test_stopped_and_resumed_it_tells_the_same(run_tiny, texts, recorder):
    table = {**texts, "methods": [CONVERT], "rounds": 8}
    whole = run_tiny("a", table=table)
    with pytest.raises(KeyboardInterrupt):
        run_tiny("b", table=table, progress=recorder(stop_after=5), checkpoint_seconds=0)
    again = run_tiny("b", table=table)
    assert lines(again, "convert") == lines(whole, "convert")
    assert again.summary_path.read_bytes() == whole.summary_path.read_bytes()


def test_model_and_data_must_go_together(run_tiny, texts):
    with pytest.raises(ConfigError, match=r"'texts', which has token ids, and 'mlp'.*text_cnn"):
        run_tiny("a", table={**texts, "model": {"name": "mlp"}})
    with pytest.raises(ConfigError, match=r"'tiny-clouds', which has numbers, and 'text_cnn'"):
        run_tiny("b", table={**texts, "data": {"name": "tiny-clouds"}})


@pytest.mark.parametrize("random", [False, True])
def test_a_check_has_the_experiment_s_tokens(texts, monkeypatch, random):
    given = {}

    def taken(model, **arguments):
        given.update(arguments, model=model)
        raise InterruptedError

    monkeypatch.setattr(checking, "check_conversion", taken)
    with pytest.raises(InterruptedError):
        check_experiment(parse({**texts, "methods": [CONVERT]}), random_inputs=random)
    assert given["inputs"].shape == (4, 6)
    x, y = given["data"][0]
    assert not x.is_floating_point()
    assert given["model"](x).shape == (len(y), 4)
