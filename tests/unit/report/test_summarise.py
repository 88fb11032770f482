import json

import pytest

from unstale.report import read_run
from unstale.report.parse import METRICS
from unstale.report.summarise import find, summarise

FOUR = ("no_delay", "unweighted", "weighted", "first_order", "convert")


def finding(folder):
    run = read_run(folder)
    return find(run, summarise(run)).text


def set_means(folder, **means):
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    for label, value in means.items():
        summary["methods"][label]["affected_mean"] = value
    path.write_text(json.dumps(summary))


def test_without_its_file_the_same_summary_is_computed(fake_run):
    folder = fake_run(rounds=100, seeds=(0, 1))
    told = summarise(read_run(folder))
    (folder / "summary.json").unlink()
    run = read_run(folder)
    computed = summarise(run)
    assert computed.provisional
    assert not told.provisional
    for method in run.methods:
        for metric in METRICS:
            expected = told.value(method, metric)
            assert computed.value(method, metric) == pytest.approx(expected), (method, metric)
        assert computed.spread(method, "accuracy") == pytest.approx(told.spread(method, "accuracy"))
    assert computed.value(run.methods[0], "held_from") > 10
    assert computed.value(run.methods[2], "held_from") is None


def test_a_seed_that_has_only_begun_does_not_count(fake_run):
    folder = fake_run(finished=False, reached={("convert", 2): 20})
    run = read_run(folder)
    convert = run.methods[-1]
    assert summarise(run).value(convert, "affected_mean") > 0.7


def test_the_finding_tells_best_plain_and_worst(fake_run):
    folder = fake_run(rounds=10, seeds=(0,))
    set_means(
        folder, no_delay=0.96, convert=0.94, first_order=0.8, unweighted=0.734, weighted=0.011
    )
    assert finding(folder) == (
        "Over rounds 6 to 10, with slow clients 40 rounds late, convert loses 0.02 of "
        "affected-class accuracy against no delay; unweighted loses 0.23; weighted loses 0.95."
    )


def test_the_finding_tells_of_no_loss_and_of_gains(fake_run):
    folder = fake_run(rounds=10, seeds=(0,), methods=FOUR[:3])
    set_means(folder, no_delay=0.9, unweighted=0.95, weighted=0.897)
    assert finding(folder) == (
        "Over rounds 6 to 10, with slow clients 40 rounds late, unweighted gains 0.05 of "
        "affected-class accuracy against no delay; weighted loses nothing."
    )


def test_the_finding_without_an_oracle(fake_run):
    folder = fake_run(rounds=10, seeds=(0,), methods=FOUR[1:3])
    set_means(folder, unweighted=0.7, weighted=0.1)
    assert finding(folder) == (
        "Over rounds 6 to 10, with slow clients 40 rounds late, unweighted reaches 0.70 in "
        "affected-class accuracy; weighted reaches 0.10."
    )


def test_the_finding_tells_a_range_of_latencies(fake_run):
    folder = fake_run(rounds=10, seeds=(0,), methods=FOUR[1:3])
    path = folder / "scenario" / "seed-0.json"
    scenario = json.loads(path.read_text())
    next(c for c in scenario["clients"] if c["slow"])["latency"] = 9.5
    path.write_text(json.dumps(scenario))
    assert finding(folder).startswith(
        "Over rounds 6 to 10, with slow clients 9 to 40 rounds late, "
    )


def test_an_unfinished_run_tells_only_what_can_be_compared(fake_run):
    reached = {("convert", seed): 30 for seed in (0, 1, 2)}
    told = finding(fake_run(finished=False, reached=reached))
    assert "unweighted" in told
    assert "convert" not in told
    everything = {(m, s): 5 for m in FOUR for s in (0, 1, 2)}
    assert finding(fake_run("early", finished=False, reached=everything)) == (
        "No method has gone through all rounds yet."
    )
