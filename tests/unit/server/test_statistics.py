"""The server of a model with BatchNorm: statistics are averaged, conversion refuses it."""

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError, ModelError

INPUTS = us.InputSpec(shape=(2,), classes=2)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))


def update(server, client, version, base, *, var, examples=10):
    delta = {name: torch.zeros_like(p) for name, p in base.items()}
    delta["1.running_var"] = torch.full((2,), var) - base["1.running_var"]
    delta["1.num_batches_tracked"] = torch.tensor(version + 5)
    return us.Update(client, version, delta, examples)


def test_values_are_averaged_however_stale():
    server = us.Server(model(), "unweighted")
    _, first = server.check_out("slow")
    server.check_out("fast")
    server.submit(update(server, "fast", 0, first, var=0.25))
    server.step()
    assert torch.equal(server.params["1.running_var"], torch.full((2,), 0.25))
    server.check_out("fast")
    server.submit(update(server, "fast", 1, server.params, var=0.5, examples=30))
    server.submit(update(server, "slow", 0, first, var=0.1))
    report = server.step()
    # As a change, the stale one would have been 0.1 - 1: below what is there now.
    torch.testing.assert_close(server.params["1.running_var"], torch.full((2,), 0.4))
    assert server.params["1.num_batches_tracked"] == 11
    assert all("running" not in name for u in report.updates for name in u.delta)


def test_saved_and_loaded(tmp_path):
    server = us.Server(model(), "first_order", limits=us.Limits(max_norm=0.5))
    _, base = server.check_out("a")
    assert server.submit(update(server, "a", 0, base, var=900.0)).accepted, "no part of the norm"
    server.save(tmp_path)
    again = us.Server.load(tmp_path, model())
    for one in (server, again):
        one.step()
        assert one.params["1.running_var"].tolist() == [900.0, 900.0]


def test_statistics_that_clients_keep_are_no_part_of_updates():
    server = us.Server(model(), local=us.LocalSpec(buffers="local"))
    assert set(server.params) == {name for name, _ in model().named_parameters()}
    with pytest.raises(ConfigError, match="buffers"):
        us.LocalSpec(buffers="none")


@pytest.mark.parametrize("method", ["convert", us.Convert(), us.chain(us.Drop(9), us.Convert())])
def test_conversion_refuses_and_names_the_way_out(method):
    with pytest.raises(ModelError, match=r"us\.fix_model\(model\)") as error:
        us.Server(model(), method, inputs=INPUTS)
    assert "`1` (BatchNorm1d)" in str(error.value)
    assert "`2` (Dropout)" in str(error.value)
    us.Server(us.fix_model(model()), method, inputs=INPUTS)
