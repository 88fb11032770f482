"""What is said of the cost of conversions before a run begins."""

from collections import Counter

import pytest
import torch

from unstale.experiment import forecast as module
from unstale.experiment import parse
from unstale.experiment.forecast import forecast, iterations
from unstale.experiment.load_data import load_data
from unstale.experiment.model import model_for
from unstale.inversion import Inversion
from unstale.run_folder import Lines
from unstale.sim import Scenario

INVERSION = {"start": "grey", "iterations": 6, "warm_iterations": 4, "warm_min_iterations": 2}


@pytest.fixture
def converting(table):
    """The experiment with conversion of every late update, and nothing else that fits."""
    table["local"] = {"lr": 0.3, "epochs": 1}
    table["methods"] = [
        {"name": "unweighted"},
        {
            "name": "convert",
            "inversion": {**INVERSION, "restart_loss": 0.0, "max_loss": 99.0},
            "uniqueness": {"enabled": False},
            "switching": {"enabled": False},
            "calibration": {"enabled": False},
            "recipe_check": {"enabled": False},
        },
    ]
    return table


class Hearing:
    def __init__(self):
        self.said = []

    def begin(self, config, folder):
        pass

    def advance(self, label, seed, line):
        pass

    def announce(self, text):
        self.said.append(text)


@pytest.mark.usefixtures("_clouds")
def test_counts_are_those_of_the_run(converting, run_tiny):
    config = parse(converting)
    dataset = load_data(config)
    scenarios = {seed: Scenario(config.scenario, dataset, seed) for seed in config.seeds}
    model, _ = model_for(config, dataset, 0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    found = forecast(config, scenarios, model, device=torch.device("cpu"))
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())

    folder = run_tiny("a", table=converting)
    conversions, spent, clients = 0, 0, set()
    for seed in config.seeds:
        for line in Lines(folder.lines_path("convert", seed)).read():
            conversions += line.conversions
            spent += line.iterations
            clients |= {(seed, one.client) for one in line.converted}
    assert conversions > 2
    assert (found.updates, found.first) == (conversions, len(clients))
    low, high = (seconds / found.iteration for seconds in found.seconds)
    assert round(low) <= spent <= round(high)
    assert found.iteration > 0


@pytest.mark.usefixtures("_clouds")
def test_jobs_share_the_time(converting):
    config = parse(converting)
    dataset = load_data(config)
    scenarios = {seed: Scenario(config.scenario, dataset, seed) for seed in config.seeds}
    model, _ = model_for(config, dataset, 0)
    found = forecast(config, scenarios, model, device=torch.device("cpu"), jobs=9)
    low = iterations_of(config, scenarios)[0]
    # Two seeds of one method that converts: no more than two at once.
    assert found.seconds[0] == pytest.approx(low * found.iteration / 2)


def iterations_of(config, scenarios):
    counted = [module.late_updates(scenario, config.rounds) for scenario in scenarios.values()]
    settings = config.methods[1].build().compensator.inversion
    pairs = [iterations(settings, one, probes=0, share=0.0) for one in counted]
    return tuple(map(sum, zip(*pairs, strict=True)))


@pytest.mark.usefixtures("_clouds")
def test_nothing_is_expected_of_methods_that_do_not_convert(table):
    config = parse(table)
    dataset = load_data(config)
    scenarios = {0: Scenario(config.scenario, dataset, 0)}
    model, _ = model_for(config, dataset, 0)
    assert forecast(config, scenarios, model, device=torch.device("cpu")) is None


def test_a_short_run_says_nothing_and_a_long_one_does(converting, run_tiny, monkeypatch):
    short = Hearing()
    run_tiny("short", table=converting, progress=short)
    assert short.said == []
    monkeypatch.setattr(module, "WORTH_SAYING", 0.0)
    long = Hearing()
    run_tiny("long", table=converting, progress=long)
    assert long.said[0].startswith("Conversion is expected to take ")
    assert "late updates" in long.said[0]


def test_every_kind_of_fit_is_bounded():
    counted = Counter({0: 3, 4: 1})
    plain = Inversion(start="grey", iterations=50, patience=5, max_lr_cuts=1)
    assert iterations(plain, counted, probes=0, share=0.0) == (2 * 10 + 2 * 10, 2 * 50 + 2 * 32)
    # Of two starts both are tried for a while; probes have first fits, and a share of later ones.
    several = Inversion(start="grey+classes", iterations=50, trial_iterations=8, patience=0)
    found = iterations(several, counted, probes=3, share=0.5)
    assert found == (2 * 58 + 2 * 12, (2 + 3) * 58 + 2 * 32 * 1.5)
    anew = iterations(plain, counted, probes=0, share=0.0, warm=False)
    assert anew == (4 * 10, 4 * 50)
