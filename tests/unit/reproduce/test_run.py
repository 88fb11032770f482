"""Items run, go on where they stopped, and are kept."""

import json

import pytest

from unstale.errors import ConfigError, RunError, UnknownNameError
from unstale.reproduce import keep_item, read_catalogue, tables_of
from unstale.reproduce.remaining import TimeLeft
from unstale.reproduce.run import Options, place_in, run_item


class Watch:
    """Notes what an item tells, and may stop it."""

    def __init__(self, stop_after=None):
        self.told, self.rounds, self.planned, self.stop_after = [], 0, {}, stop_after

    def plan(self, parts, rounds):
        self.planned = rounds

    def part(self, name, *, done):
        self.told.append((name, done))

    def begin(self, config, folder):
        pass

    def advance(self, label, seed, line):
        self.rounds += 1
        if self.rounds == self.stop_after:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _quick_files(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)


def test_a_stopped_item_goes_on_and_gives_the_same(experiments, tmp_path):
    item = read_catalogue(experiments).find("small")
    whole, cut = (Options(tmp_path / name, smoke=True) for name in ("whole", "cut"))
    watch = Watch()
    run_item(item, whole, watch)
    # Two methods, three rounds; the first run also has one try of the tuned method.
    assert watch.planned == {"unweighted": 6, "first_order": 6, "first_order-1": 3}
    assert watch.rounds == sum(watch.planned.values())

    with pytest.raises(KeyboardInterrupt):
        run_item(item, cut, Watch(stop_after=13))  # within the second run
    watch = Watch()
    run_item(item, cut, watch)
    assert watch.told == [("first", True), ("second", False)]
    assert watch.planned == {"unweighted": 3, "first_order": 3}  # what is not done
    for run in item.runs:
        one, two = (place_in(o.out, run) / "summary.json" for o in (whole, cut))
        assert one.read_bytes() == two.read_bytes()
    (table,) = tables_of(item, lambda part: place_in(cut.out, part))
    assert not table.is_empty


def test_a_run_of_two_items_is_run_once(experiments, tmp_path):
    catalogue = read_catalogue(experiments)
    options = Options(tmp_path / "out", smoke=True, only=("first",))
    run_item(catalogue.find("small"), options, Watch())
    watch = Watch()
    run_item(catalogue.find("shared"), options, watch)
    assert watch.told == [("first", True)]


def test_a_folder_with_another_run_is_refused(experiments, tmp_path):
    item = read_catalogue(experiments).find("small")
    run_item(item, Options(tmp_path / "out", smoke=True, only=("second",)), Watch())
    other = Options(tmp_path / "out", smoke=True, seeds=(11,), only=("second",))
    with pytest.raises(RunError, match="differs in: seeds"):
        run_item(item, other, Watch())
    with pytest.raises(UnknownNameError, match="Did you mean 'second'"):
        run_item(item, Options(tmp_path / "out", only=("secnod",)), Watch())


def test_scripts_run_once_for_each_seed(experiments, tmp_path):
    item = read_catalogue(experiments).find("script")
    options = Options(tmp_path / "out", data_root=str(tmp_path))
    watch = Watch()
    run_item(item, options, watch)
    assert watch.told == [("study, seed_1.json", False), ("study, seed_2.json", False)]
    (tmp_path / "out" / "script" / "seed_2.json").unlink()
    watch = Watch()
    run_item(item, options, watch)
    assert watch.told == [("study, seed_1.json", True), ("study, seed_2.json", False)]
    (table,) = tables_of(item, lambda part: place_in(options.out, part))
    assert table.cells()[1] == ["20", "91.5 ± 0.7", "74.6"]


def test_a_script_that_fails_is_an_error(experiments, tmp_path):
    item = read_catalogue(experiments).find("script")
    with pytest.raises(RunError, match="exit code 1"):
        run_item(item, Options(tmp_path / "out", data_root="wrong"), Watch())
    with pytest.raises(ConfigError, match="on the CPU"):
        run_item(item, Options(tmp_path / "out", smoke=True, device="cuda"), Watch())


def test_what_a_script_wrote_before_it_was_cut_off_is_no_result(experiments, tmp_path):
    item, out = read_catalogue(experiments).find("script"), tmp_path / "out"
    with pytest.raises(RunError, match="exit code 1"):
        run_item(item, Options(out, data_root="cut"), Watch())
    assert [path.name for path in (out / "script").iterdir()] == ["unfinished"]
    with pytest.raises(RunError, match="should be done before it is kept"):
        keep_item(item, out)
    watch = Watch()
    run_item(item, Options(out), watch)
    assert watch.told == [("study, seed_1.json", False), ("study, seed_2.json", False)]
    assert len(keep_item(item, out)) == 2


def test_what_is_done_is_kept_once(experiments, tmp_path):
    catalogue = read_catalogue(experiments)
    item, out = catalogue.find("small"), tmp_path / "out"
    with pytest.raises(RunError, match="should be done before it is kept"):
        keep_item(item, out)
    run_item(item, Options(out, smoke=True), Watch())
    results = experiments / "small" / "results"
    assert keep_item(item, out) == [results / "first", results / "second"]
    assert keep_item(item, out) == []
    kept = results / "first" / "rounds" / "unweighted" / "seed-10.jsonl.gz"
    assert kept.is_file()
    with pytest.raises(RunError, match="should be done before it is kept"):
        keep_item(catalogue.find("shared"), out)  # its run belongs to the other item

    script = catalogue.find("script")
    run_item(script, Options(out), Watch())
    assert len(keep_item(script, out)) == 2
    path = experiments / "script" / "results" / "seed_1.json"
    path.write_text(json.dumps({"about": {}}))
    with pytest.raises(RunError, match="holds another one"):
        keep_item(script, out)


def test_time_left_counts_what_each_method_takes():
    left = TimeLeft({"slow": 4, "fast": 4, "new": 2}, jobs=2)
    assert left.seconds() is None
    for label, seconds in (("slow", 10.0), ("slow", 12.0), ("fast", 1.0)):
        left.advance(label, seconds)
    # Two of 11 s, three of 1 s, two of the mean of all, 23/3 s; two at once.
    assert left.seconds() == pytest.approx((22 + 3 + 2 * 23 / 3) / 2)
