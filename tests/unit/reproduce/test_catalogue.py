"""The catalogue of the repository is whole, and wrong ones are refused with a reason."""

import tomllib
from pathlib import Path

import pytest

from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment import load_experiment
from unstale.reproduce import find_experiments, read_catalogue
from unstale.reproduce.generated import registered
from unstale.reproduce.measures import FILE, MEASURES
from unstale.reproduce.plan import config_of

ROOT = Path(__file__).parents[3]
OURS = read_catalogue(ROOT / "experiments")


def test_every_table_and_figure_of_the_paper_is_there_once():
    numbers = {
        kind: [e.number for e in OURS.entries if e.kind == kind] for kind in ("table", "figure")
    }
    assert numbers == {"table": list(range(1, 22)), "figure": list(range(1, 18))}
    labels = [entry.label for entry in OURS.entries]
    assert len(set(labels)) == 38
    made = [label for item in OURS.items for label in item.makes]
    left = [entry.label for entry in OURS.entries if entry.left]
    assert sorted([*made, *left]) == sorted(labels)


def test_what_is_left_says_why():
    for entry in OURS.entries:
        assert bool(entry.left) == bool(entry.why), entry.label
    assert {entry.left for entry in OURS.entries} == {None, "a drawing"}


@pytest.mark.parametrize("item", OURS.items, ids=lambda item: item.name)
def test_items_fit_their_experiments(item):
    for run in item.runs:
        with registered():
            full, small = config_of(run), config_of(run, smoke=True)
        labels = {method.label for method in full.methods}
        assert [m.label for m in small.methods] == [m.label for m in full.methods]
        # Tables are made on seeds of their own, three at least.
        assert len(full.seeds) >= 3
        assert min(full.seeds) >= 10
        assert run.tune == bool(full.tunable)
        for table in item.tables:
            assert set(table.rows) <= labels, f"{run.name}: rows that no method makes"
    for table in item.tables:
        assert table.measure in ([FILE] if item.scripts else MEASURES)
        assert table.paper in (item.makes or ["main"])
    assert (item.folder / "README.md").is_file()


def test_the_papers_numbers_of_shared_columns_agree():
    """MNIST at α = 0.1 and τ = 40 is in three tables, which print it almost alike."""
    by_label = {
        (item.name, at): table.rows for item in OURS.items for at, table in enumerate(item.tables)
    }
    main = by_label["main_table", 0]
    for name in ("by_alpha", "by_staleness"):
        for row, numbers in by_label[name, 0].items():
            if numbers:
                assert abs(numbers[1] - main[row][0]) < 0.35


def test_settings_reach_the_experiment():
    run = OURS.find("by_staleness").runs[2]
    assert run.column == "τ = 100"
    assert config_of(run).scenario.latency.rounds == 100
    with registered():
        assert config_of(run, smoke=True).scenario.latency.rounds == 2
    shared = OURS.find("by_staleness").runs[1]
    assert (shared.item, shared.name) == ("main_table", "mnist")
    assert config_of(shared) == config_of(OURS.find("main_table").runs[0])


def test_items_are_found_by_name_label_and_number(experiments):
    found = read_catalogue(experiments)
    assert {found.find(name).name for name in ("small", "one", "Table 1", "table_1")} == {"small"}
    with pytest.raises(ConfigError, match=r"Figure 2 .* not built\. Needs a telescope\."):
        found.find("figure 2")
    with pytest.raises(UnknownNameError, match="Did you mean 'small'"):
        found.find("smal")


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("paper.toml", 'label = "two"', 'label = "one"', "should be unique"),
        ("paper.toml", "number = 1", 'number = "1"', "`number` of entry 1"),
        ("paper.toml", 'left = "not built"', 'left = "later"', "should be one of: a drawing"),
        ("paper.toml", 'left = "not built"', "", "should be made by one item"),
        ("shared/item.toml", '["fig"]', '["fig", "one"]', "Found shared, small"),
        ("shared/item.toml", '["fig"]', '["fgi"]', "Did you mean 'fig'"),
        ("shared/item.toml", "small/first", "small/third", "should name ITEM/RUN"),
        ("small/item.toml", "tune = true", "tuned = true", "Did you mean 'tune'"),
        ("small/item.toml", "[57.4, 72.6]", "[57.4]", "should have 2 numbers or none"),
        ("small/item.toml", 'name = "second"', 'name = "first"', "should be unique"),
        ("small/item.toml", "title =", "title", "readable TOML"),
        ("script/item.toml", "study.py", "stuyd.py", "should have a file"),
    ],
)
def test_wrong_descriptions_say_what_should_hold(experiments, file, old, new, says):
    path = experiments / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        read_catalogue(experiments)


def test_without_a_checkout_it_says_where_to_get_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unstale.reproduce.catalogue.source_root", lambda: None)
    with pytest.raises(ConfigError, match="Get the repository's sources"):
        find_experiments()
    assert find_experiments(ROOT / "experiments") == ROOT / "experiments"


def test_experiment_files_of_items_have_one_recipe():
    """What an item does not vary is the paper's: 5 passes, learning rate 0.01, momentum 0.5."""
    for name in ("mnist", "fashion_mnist", "cifar10", "disaster"):
        path = ROOT / "experiments" / "main_table" / f"{name}.toml"
        local = tomllib.loads(path.read_text("utf-8"))["local"]
        assert (local["lr"], local["momentum"], local["epochs"]) == (0.01, 0.5, 5)
        assert load_experiment(path).scenario.latency.rounds == 40
