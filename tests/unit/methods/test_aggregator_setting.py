"""The setting `aggregator` of methods: by name, as a table, as an object; after compensation."""

import dataclasses
import json

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.method_config import parse_methods
from unstale.methods import AGGREGATORS, Krum, Median, MultiKrum, NormBound, Stateless, TrimmedMean
from unstale.methods.description import describe_method, rebuild_method
from unstale.updates import Outcome

NESTED = {"name": "norm_bound", "factor": 2.0, "then": {"name": "trimmed_mean", "share": 0.1}}


def test_names_tables_and_objects():
    assert us.method("convert", aggregator="median").aggregator == Median()
    assert us.method("weighted", aggregator={"name": "krum", "share": 0.1}).aggregator == Krum(0.1)
    assert us.method("drop", aggregator=Median()).aggregator == Median()
    nested = us.method("unweighted", aggregator=NESTED).aggregator
    assert (nested, nested.inner) == (NormBound(2.0, NESTED["then"]), TrimmedMean(0.1))
    scaled = us.method("unweighted", aggregator={"name": "fedavg", "server_lr": 0.5})
    assert scaled.aggregator == us.FedAvg(0.5)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_every_name_makes_one_that_a_checkpoint_can_hold(name):
    method = us.method("convert", aggregator={"name": name})
    assert rebuild_method(json.loads(json.dumps(describe_method(method)))) == method
    whole = us.method("unweighted", aggregator=NESTED)
    assert rebuild_method(json.loads(json.dumps(describe_method(whole)))) == whole


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("convert", {"aggregator": "medain"}, "Did you mean 'median'"),
        ("convert", {"aggregator": {"name": "krum", "shar": 1}}, "Did you mean 'share'"),
        ("convert", {"aggregator": {"share": 0.1}}, "should have its `name`"),
        ("convert", {"aggregator": us.Drop(5)}, "`aggregator` should be a name"),
        ("convert", {"aggregator": "median", "server_lr": 0.5}, "in the table `aggregator`"),
        ("asyn_tiers", {"aggregator": "median"}, "A setting of method 'asyn_tiers'"),
    ],
)
def test_what_is_wrong_is_said(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        us.method(name, **settings)


def test_in_an_experiment_file():
    table = {"name": "convert", "aggregator": {"name": "norm_bound", "factor": 2, "then": "median"}}
    (found,) = parse_methods([table])
    assert found.build().aggregator == NormBound(2.0, "median")
    assert parse_methods([found.to_json()]) == (found,)
    wrong = {"name": "norm_bound", "then": {"name": "krum", "share": "few"}}
    with pytest.raises(ConfigError, match=r"aggregator.then.share` should be a number"):
        parse_methods([{"name": "convert", "aggregator": wrong}])
    with pytest.raises(UnknownNameError, match=r"methods\[0\].aggregator.name"):
        parse_methods([{"name": "convert", "aggregator": {"name": "nope"}}])


@dataclasses.dataclass(frozen=True)
class ToToday(Stateless):
    """A perfect conversion: every stale update becomes what everybody sends today."""

    def apply(self, updates, state, view):
        made = [
            dataclasses.replace(u, delta={"weight": torch.ones(1, 2)})
            if u.staleness(view.version)
            else u
            for u in updates
        ]
        return Outcome(tuple(made), state)


@pytest.mark.parametrize("rule", [MultiKrum(), "direction_bound"])
def test_honest_late_updates_are_converted_before_they_are_judged(rule):
    """As it came the late update is an outlier; converted, it is one of the crowd."""
    left = {}
    for name, compensator in {"stale": us.Identity(), "converted": ToToday()}.items():
        model = nn.Linear(2, 1, bias=False)
        method = us.Method(compensator, us.methods.aggregator("median"))
        aggregator = us.method("unweighted", aggregator=rule).aggregator
        server = us.Server(model, dataclasses.replace(method, aggregator=aggregator))
        server.check_out("late")
        server.step()
        server.submit(us.Update("late", 0, {"weight": torch.full((1, 2), -5.0)}, 10))
        for i in range(6):
            crowd = torch.tensor([[1.0 + i / 20, 1.0 - i / 20]])
            server.submit(us.Update(f"c{i}", 1, {"weight": crowd}, 10))
        notes = server.step().notes
        left[name] = {n.client_id for n in notes if n.kind == "left_out"}
    assert "late" in left["stale"]
    assert "late" not in left["converted"]
