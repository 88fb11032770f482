"""Some surrogates are left behind on request, by methods that make them and by no others."""

import json

import pytest

from unstale.report import read_run
from unstale.report.context import Context
from unstale.report.html import build_page
from unstale.run_folder import surrogates
from unstale.run_folder.lines import Lines

# So few iterations fit badly: they are to be taken nevertheless.
FEW = {
    "name": "convert",
    "inversion": {
        "iterations": 8, "warm_iterations": 3, "min_samples": 4, "max_samples": 12,
        "restart_loss": 0.0, "max_loss": 0.9,
    },
}  # fmt: skip


@pytest.fixture
def converting(table):
    methods = [{"name": "unweighted"}, FEW]
    return {**table, "methods": methods, "seeds": [0], "storage": {"surrogates": True}}


def read(folder):
    return json.loads(folder.surrogates_path("convert", 0).read_text())


def test_what_is_written(run_tiny, converting):
    folder = run_tiny("a", table=converting)
    found = read(folder)
    assert not folder.surrogates_path("unweighted", 0).exists()
    assert found["of"] == len(found["clients"]) == 2
    scenario = json.loads(folder.scenario_path(0).read_text())
    slow = [client["id"] for client in scenario["clients"] if client["slow"]]
    assert [entry["client"] for entry in found["clients"]] == sorted(slow)
    for entry in found["clients"]:
        assert (entry["shape"], entry["low"], entry["high"]) == ([3], -9.0, 9.0)
        assert len(entry["x"]) == len(entry["labels"]) == min(entry["samples"], 8)
        assert all(len(x) == 3 and all(-9 <= v <= 9 for v in x) for x in entry["x"])
        assert all(sum(label) == pytest.approx(1, abs=0.01) for label in entry["labels"])


def test_nothing_is_written_unless_it_is_asked_for(run_tiny, converting):
    del converting["storage"]
    folder = run_tiny("a", table=converting)
    assert any(line.conversions for line in Lines(folder.lines_path("convert", 0)).read())
    assert not (folder.path / "surrogates").exists()
    page = build_page(Context.of(read_run(folder.path)))
    assert "run the experiment with <code>--surrogates</code>" in page
    assert 'class="samples' not in page


def test_large_inputs_show_with_fewer_samples(run_tiny, converting, monkeypatch):
    monkeypatch.setattr(surrogates, "MAX_VALUES", 2 * 3 * 3)
    monkeypatch.setattr(surrogates, "MAX_CLIENTS", 1)
    found = read(run_tiny("a", table=converting))
    assert (found["of"], len(found["clients"]), len(found["clients"][0]["x"])) == (2, 1, 6)


def test_stopped_and_resumed_it_tells_the_same(run_tiny, converting, recorder):
    whole = run_tiny("a", table=converting)
    with pytest.raises(KeyboardInterrupt):
        run_tiny("b", table=converting, progress=recorder(stop_after=12), checkpoint_seconds=0)
    again = run_tiny("b", table=converting)
    assert read(again) == read(whole)

    def told(folder):
        lines = Lines(folder.lines_path("convert", 0)).read()
        return [{k: v for k, v in line.to_json().items() if k != "seconds"} for line in lines]

    assert told(again) == told(whole)
    converted = [one for line in told(whole) for one in line.get("converted", [])]
    assert {one["start"] for one in converted} == {"cold", "warm"}
    assert all("seconds" not in one for one in converted)
    assert any("curve" in one for one in converted)
