"""The pure parts of the scripts in `experiments/` and `benchmarks/`."""

import doctest
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def script(path: str):
    """Import a script by its path."""
    name = path.replace("/", "_").removesuffix(".py")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    return sys.modules[name]


CONVERSION = "benchmarks/conversion.py"
SAVINGS = "experiments/conversion_savings/study.py"
SAVINGS_TABLES = "experiments/conversion_savings/tables.py"
UNIQUENESS = "experiments/uniqueness/study.py"
ERRORS = "experiments/conversion_error/tables.py"
HISTORY_MEMORY = "benchmarks/history_memory.py"
GAMMA = "experiments/switching/gamma.py"
DIRICHLET = "experiments/dirichlet/study.py"
STANDING_IN = "experiments/standing_in/study.py"
JOINING = "experiments/standing_in/joining.py"
STANDING_IN_TABLES = "experiments/standing_in/tables.py"
PRIVACY_IMAGES = "experiments/privacy_images/study.py"
PRIVACY_PICTURES = "experiments/privacy_images/pictures.py"
PRIVACY_TABLES = "experiments/privacy_images/tables.py"
PRIVACY_LABELS = "experiments/privacy_labels/study.py"
PRIVACY_COST = "experiments/privacy_cost/study.py"
PRIVACY_COST_TABLES = "experiments/privacy_cost/tables.py"


@pytest.mark.parametrize(
    "path",
    [
        CONVERSION,
        HISTORY_MEMORY,
        SAVINGS,
        SAVINGS_TABLES,
        UNIQUENESS,
        GAMMA,
        DIRICHLET,
        ERRORS,
        STANDING_IN,
        JOINING,
        STANDING_IN_TABLES,
        PRIVACY_IMAGES,
        PRIVACY_PICTURES,
        PRIVACY_TABLES,
        PRIVACY_LABELS,
        PRIVACY_COST,
        PRIVACY_COST_TABLES,
    ],
)
def test_examples_of_scripts_hold(path):
    outcome = doctest.testmod(script(path))
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_operations_grow_with_samples_and_steps_as_counted():
    flop = script(CONVERSION).lenet_flop
    assert flop(128, 5) == 2 * flop(64, 5)
    first, others = 144_000, 336_500
    # One step: forward and two gradients, the first layer without the one for its inputs;
    # then one more product for each factor that is not a constant.
    assert flop(1, 1) == 2 * ((2 + 3) * first + (3 + 4) * others)
    assert flop(1, 2) - flop(1, 1) == 2 * (6 * first + 9 * others)


def test_iterations_are_limited_without_an_early_stop():
    module = script(CONVERSION)
    settings = module.Inversion(patience=10)
    assert module.limited(settings, None) is settings
    limited = module.limited(settings, 7)
    assert (limited.iterations, limited.warm_iterations, limited.patience) == (7, 7, 0)
    assert [module.sized(settings, n).num_samples(450) for n in module.SIZES] == [32, 64, 225, 450]


def row(module, way, start, at_once, seconds):
    return module.Row(way, start, at_once, 64, 25, seconds, seconds, 1, 0.1, 0.1, 1.0, 0.1)


@pytest.mark.parametrize(("device", "met"), [("cpu", [None, None, None, True]),
                                             ("cuda", [False, True, False, None])])  # fmt: skip
def test_aims_are_judged_on_the_machine_they_are_for(device, met):
    module = script(CONVERSION)
    rows = [
        row(module, "default", "cold", 1, 3.0),
        row(module, "default", "warm", 1, 1.5),
        row(module, "default", "warm", 10, 1.0),
        row(module, "paper", "cold", 1, 200.0),
    ]
    found = module.verdicts(rows, module.torch.device(device))
    assert [one["met"] for one in found.values()] == met


def test_a_loss_that_is_never_reached_has_no_iterations():
    module = script(SAVINGS)
    assert module.first_below([0.5, float("nan"), 0.2], 0.1) is None
    assert module.first_below([0.5, float("nan"), 0.2], 0.2) == 3


def test_kept_size_of_a_dense_update_is_all_of_it():
    module = script(SAVINGS)
    vector = module.torch.tensor([1.0, -2.0, 2.0, 0.0])
    assert module.kept_size(vector, 0.0) == 1.0
    assert module.kept_size(vector, 0.75) == pytest.approx(2 / 3, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_unique_classes_are_on_slow_clients_only(seed):
    classes, rare = script(UNIQUENESS).draw_classes(fast=40, slow=10, unique=2, most=8, seed=seed)
    fast, slow = classes[:40], classes[40:]
    assert not rare & set(fast)
    assert sum(k in rare for k in slow) == 5
    assert {k for k in slow if k not in rare} <= set(fast)
    assert max(classes.count(k) for k in set(classes)) <= 8


def test_given_classes_share_no_sample():
    module = script(UNIQUENESS)
    labels = module.np.arange(200) % 10
    parts = module.GivenClasses((3, 3, 7), 5).split(labels, None, seed=0)
    assert [set(labels[part].tolist()) for part in parts] == [{3}, {3}, {7}]
    assert len({int(i) for part in parts for i in part}) == 15
    with pytest.raises(ValueError, match="Class 3"):
        module.GivenClasses((3, 3, 3), 8).split(labels, None, seed=0)


def test_accuracy_counts_both_kinds():
    module = script(UNIQUENESS)
    seen = [
        {"round": 20, "unique": True, "judged_unique": True},
        {"round": 21, "unique": True, "judged_unique": True},
        {"round": 25, "unique": False, "judged_unique": True},
        {"round": 100, "unique": False, "judged_unique": False},
    ]
    rows = module.table(seen)
    assert rows["20"] == {
        "accuracy": 2 / 3, "of_unique": 1.0, "of_common": 0.0, "decisions": 3,
    }  # fmt: skip
    assert rows["100"]["of_unique"] is None
    assert set(rows) == {"20", "100", "all"}


def test_gamma_is_read_until_it_is_zero_and_findings_in_order():
    module = script(GAMMA)
    lines = [
        {"round": 1},
        {"round": 2, "measured": [{"client": "a", "version": 0, "e1": 0.2, "e2": 0.1}]},
        {"round": 3, "gamma": {"a": 0.5, "b": 0.0}},
        {"round": 4, "gamma": {"a": 0.0, "b": 0.0}},
        {"round": 5, "gamma": {"a": 0.0, "b": 0.0}},
    ]
    assert module.gammas(lines) == {"a": [(2, 0.5), (3, 0.0)], "b": [(2, 0.0)]}
    assert module.findings(lines) == {"a": [(1, 0.2, 0.1)]}


def test_gains_compare_the_same_seeds_and_stalenesses():
    tables = script(ERRORS)
    line = {"set": "mnist", "scenario": "one_class", "tau": 20}
    found = [
        {**line, "seed": seed, "way": way, "when": when, "error": error}
        for seed, way, when, error in [
            (0, "stale", "", 0.2),
            (1, "stale", "", 0.4),
            (2, "stale", "", 9.0),  # a seed that was not converted counts on neither side
            (0, "default", "first", 0.1),
            (1, "default", "first", 0.05),
        ]
    ]
    kind = ("mnist", "one_class", "default", "first")
    assert tables.gains(found, kind, 20) == pytest.approx([0.3 / 0.075, 2.0, 8.0])
    assert tables.gains(found, kind, 50) == []
    assert "4.0 (2.0 to 8.0)" in tables.spread(found)
    assert tables.errors(found).splitlines()[-1].split()[3:5] == ["first", "0.0750"]


def test_seeds_and_device_of_a_study_are_its_options_or_its_files():
    found = script(STANDING_IN).seeds_and_device
    assert found("digits", ["--jobs", "2"]) == ([10, 11, 12], "cpu")
    assert found("digits", ["--seeds", "0,1", "--device", "cuda"]) == ([0, 1], "cuda")


def test_errors_have_a_table_for_each_distance():
    module = script(ERRORS)
    line = {"set": "s", "scenario": "c", "way": "stale", "when": "", "seed": 0, "error": 0.25}
    now = [{**line, "tau": 5, "l1": 0.75}, {**line, "tau": 20, "l1": 1.25}]
    assert module.errors(now, "l1").splitlines()[1].split()[3:5] == ["0.7500", "1.2500"]
    before = [{**line, "tau": 5}, now[1]]
    assert module.errors(before).splitlines()[1].split()[3:5] == ["0.2500", "0.2500"]
    assert module.errors(before, "l1").splitlines()[1].split()[3:5] == ["–", "1.2500"]
