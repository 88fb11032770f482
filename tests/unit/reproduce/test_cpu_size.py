"""Items at CPU size: what replaces what, what is left out, and what is kept where."""

import pytest
from kept_runs import ROWS, write_run

from unstale.errors import ConfigError
from unstale.reproduce import (
    at_cpu_size,
    find_experiments,
    has_cpu_size,
    kept_places,
    read_catalogue,
    state_of,
    tables_of,
)
from unstale.reproduce.plan import config_of
from unstale.reproduce.run import Options, place_in, run_item

OURS = read_catalogue(find_experiments())
SIZES = """
[digits]
about = "five rounds"
[digits.set]
rounds = 5
"latency.rounds" = 3
"partition.samples" = 10
"""


@pytest.fixture
def sized(experiments):
    """The folder of experiments, with sizes."""
    (experiments / "cpu_size.toml").write_text(SIZES, encoding="utf-8")
    return experiments


def change(path, old, new):
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_the_model_decides_and_the_run_has_the_last_word(sized):
    change(
        sized / "small" / "item.toml", 'name = "second"', 'name = "second"\ncpu = { rounds = 7 }'
    )
    first, second = (
        config_of(run) for run in at_cpu_size(read_catalogue(sized).find("small")).runs
    )
    assert (first.rounds, second.rounds) == (5, 7)
    assert first.scenario.latency.rounds == 3
    assert second.scenario.latency.rounds == 10  # `set` of the run, which is what is compared
    assert first.scenario.partition.samples == second.scenario.partition.samples == 10
    assert "At CPU size: five rounds" in first.description
    assert [method.label for method in first.methods] == ["unweighted", "first_order"]


def test_runs_without_a_size_and_their_columns_are_left_out(sized):
    change(sized / "small" / "item.toml", 'name = "first"', 'name = "first"\ncpu = false')
    small = at_cpu_size(read_catalogue(sized).find("small"))
    assert [run.name for run in small.runs] == ["second"]
    (table,) = small.tables
    assert table.columns == ("second",)
    assert table.rows == {"unweighted": (72.6,), "first_order": ()}


def test_scripts_have_one_if_they_say_so(sized):
    assert not has_cpu_size(read_catalogue(sized).find("script"))
    with pytest.raises(ConfigError, match="'script' has no CPU size"):
        at_cpu_size(read_catalogue(sized).find("script"))
    change(sized / "script" / "item.toml", "seeds =", 'cpu = ["--value", 0.7]\nseeds =')
    (script,) = at_cpu_size(read_catalogue(sized).find("script")).scripts
    assert script.arguments == ("--value", "0.7")


def test_without_sizes_nothing_has_one(experiments):
    assert not any(has_cpu_size(item) for item in read_catalogue(experiments).items)


def test_a_wrong_file_is_an_error(sized):
    (sized / "cpu_size.toml").write_text("[digits]\nabuot = 'x'\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="Did you mean 'about'"):
        at_cpu_size(read_catalogue(sized).find("small"))


def test_results_are_kept_apart_and_have_a_state_of_their_own(sized):
    catalogue = read_catalogue(sized)
    item, entry = catalogue.find("small"), catalogue.entry("one")
    small = at_cpu_size(item)
    results = sized / "small" / "results"
    assert [kept_places(small, run) for run in small.runs] == [
        results / "cpu" / "first",
        results / "cpu" / "second",
    ]
    write_run(results / "cpu" / "first", ROWS, rounds=5)
    assert state_of(entry, item) == ("partly", "1 of 2 runs are kept at CPU size")
    write_run(results / "cpu" / "second", ROWS, rounds=5)
    assert state_of(entry, item) == ("CPU size", "")
    for name in ("first", "second"):
        write_run(results / name, ROWS)
    assert state_of(entry, item) == ("full size", "")


class Quiet:
    """Nobody watches."""

    def __getattr__(self, name):
        return lambda *arguments, **named: None


def test_it_runs(sized, tmp_path):
    small = at_cpu_size(read_catalogue(sized).find("small"))
    options = Options(tmp_path / "out", seeds=(10,), only=("second",))
    run_item(small, options, Quiet())
    assert (place_in(options.out, small.runs[1]) / "summary.json").is_file()
    (table,) = tables_of(small, lambda part: place_in(options.out, part))
    assert table.ours["unweighted"][0] is None
    assert table.ours["unweighted"][1].seeds == 1


def test_every_run_of_ours_that_has_a_size_is_smaller_with_the_same_clients_and_methods():
    seen = 0
    for item in OURS.items:
        if not has_cpu_size(item):
            continue
        for small in at_cpu_size(item).runs:
            (run,) = (one for one in item.runs if one.name == small.name)
            less, full = config_of(small), config_of(run)
            seen += 1
            assert less.rounds < full.rounds
            assert less.data == full.data
            assert less.scenario.latency == full.scenario.latency
            assert less.scenario.cohort == full.scenario.cohort
            assert less.scenario.partition.clients == full.scenario.partition.clients
            assert [m.label for m in less.methods] == [m.label for m in full.methods]
    assert seen > 20
