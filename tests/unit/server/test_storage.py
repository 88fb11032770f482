"""Checkpoints that are encrypted, and those without what the method remembers of clients."""

import base64
import json
import logging

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError
from unstale.server.checkpoint import KEPT, Checkpoints

SEALED = us.Storage(checkpoints="encrypted", key="env:THE_KEY")
INPUTS = us.InputSpec(shape=(3,), classes=2, low=-1.0, high=1.0)
FEW = us.Inversion(iterations=4, warm_iterations=2, min_samples=2, max_samples=4, max_loss=1e9)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("THE_KEY", base64.b64encode(bytes(range(32))).decode())
    monkeypatch.setenv("ANOTHER", base64.b64encode(bytes(32)).decode())


def converting_server(storage):
    """A server that has converted an update of the client `late`, so that it has a surrogate."""
    torch.manual_seed(0)
    server = us.Server(
        nn.Linear(3, 2),
        us.method("convert", inversion=FEW),
        local=us.LocalSpec(lr=0.1, epochs=1),
        inputs=INPUTS,
        storage=storage,
    )
    version, params = server.check_out("late")
    server.step()
    delta = {name: 0.01 * torch.ones_like(p) for name, p in params.items()}
    assert server.submit(us.Update("late", version, delta, num_examples=8)).accepted
    assert server.step().count("converted") == 1
    assert list(server.surrogates()) == ["late"]
    return server


def test_an_encrypted_checkpoint_comes_back_whole(tmp_path):
    server = converting_server(SEALED)
    path = server.save(tmp_path)
    loaded = us.Server.load(tmp_path, server.model, storage=SEALED)
    assert torch.equal(loaded.surrogates()["late"].x, server.surrogates()["late"].x)
    assert loaded.settings.storage == SEALED
    loaded.save(tmp_path)
    assert us.Server.load(tmp_path, storage=SEALED).version == 2
    # What is on the disk: the global model of earlier versions, and nothing else that is plain.
    assert "late" not in path.read_text()
    assert sorted(json.loads(path.read_text())) == ["digest", "files", "format", "sealed"]
    assert not list(tmp_path.glob("checkpoint-*.safetensors"))
    sealed = b"".join(p.read_bytes() for p in tmp_path.glob("*.sealed"))
    assert server.surrogates()["late"].x.numpy().tobytes() not in sealed
    assert b"y_logits" not in sealed


def test_no_key_and_a_wrong_key_are_clear_errors(tmp_path, monkeypatch):
    converting_server(SEALED).save(tmp_path)
    with pytest.raises(ConfigError, match="since it is encrypted"):
        us.Server.load(tmp_path)
    with pytest.raises(ConfigError, match="should be opened with the key"):
        us.Server.load(tmp_path, storage=us.Storage(checkpoints="encrypted", key="env:ANOTHER"))
    monkeypatch.delenv("THE_KEY")
    with pytest.raises(ConfigError, match="Found nothing there"):
        us.Server.load(tmp_path, storage=SEALED)


def test_old_encrypted_checkpoints_are_removed_and_damaged_ones_skipped(tmp_path, caplog):
    folder = Checkpoints(tmp_path, SEALED.seal())
    for value in range(KEPT + 2):
        folder.write({"x": value, "t": torch.ones(2)}, {})
    assert len(list(tmp_path.glob("*.sealed"))) == len(list(tmp_path.glob("*.json"))) == KEPT
    newest = sorted(tmp_path.glob("*.sealed"))[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        tree, _ = Checkpoints(tmp_path, SEALED.seal()).read()
    assert tree["x"] == KEPT
    assert "damaged checkpoint" in caplog.text


def test_without_memory_nothing_of_clients_is_in_it_and_the_method_begins_anew(tmp_path, caplog):
    storage = us.Storage(checkpoints="without_memory")
    server = converting_server(storage)
    path = server.save(tmp_path)
    assert list(server.surrogates()) == ["late"], "the server itself goes on with its memory"
    weights = {name: p.shape for name, p in server.params.items()}
    stored = Checkpoints(tmp_path).read()[0]["server"]
    assert stored["compensator"] == server.method.compensator.init()
    assert {name: p.shape for name, p in stored["params"].items()} == weights
    assert "y_logits" not in path.read_text()
    with caplog.at_level(logging.WARNING):
        loaded = us.Server.load(tmp_path, server.model)
    assert "begins anew" in caplog.text
    assert loaded.surrogates() == {}
    assert loaded.settings.storage == storage, "the next checkpoint is written as this one"
    version, params = loaded.check_out("late")
    loaded.step()
    loaded.submit(us.Update("late", version, {n: 0.01 + 0 * p for n, p in params.items()}, 8))
    assert loaded.step().count("converted") == 1


def test_a_plain_checkpoint_holds_the_surrogates(tmp_path):
    server = converting_server(us.Storage())
    server.save(tmp_path)
    assert "late" in us.Server.load(tmp_path, server.model).surrogates()
