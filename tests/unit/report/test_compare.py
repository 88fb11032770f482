import json
import re
from pathlib import Path

import pytest

from unstale.errors import RunError
from unstale.report import read_run, write_comparison
from unstale.report.as_summary import as_summary
from unstale.report.compare import compare, short_names

SHORT = {"rounds": 30, "seeds": (0, 1)}


def compared(*folders):
    return compare(folders, [read_run(folder) for folder in folders])


def labels(comparison):
    return [method.label for method in comparison.context.run.methods]


def change(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def test_methods_of_two_folders_are_told_apart_where_they_differ(fake_run):
    a = fake_run("a", methods=("no_delay", "unweighted"), **SHORT)
    b = fake_run("b", methods=("no_delay", "unweighted", "convert"), **SHORT)
    path = b / "rounds" / "unweighted" / "seed-1.jsonl"
    *lines, last = path.read_text().splitlines()
    changed = json.loads(last) | {"accuracy": 0.123}
    path.write_text("\n".join([*lines, json.dumps(changed)]) + "\n")
    found = compared(a, b)
    assert labels(found) == ["no_delay", "unweighted (a)", "unweighted (b)", "convert"]
    assert found.shared == ("no_delay",)
    assert found.same
    assert found.same_seeds
    styles = found.context.styles
    assert styles["unweighted (a)"] != styles["unweighted (b)"]


def test_some_of_three_may_be_alike(fake_run):
    one = ("unweighted",)
    folders = [fake_run("a", methods=one, **SHORT), fake_run("b", methods=one, **SHORT)]
    folders.append(fake_run("c", methods=one, rounds=30, seeds=(4,)))
    found = compared(*folders)
    assert labels(found) == ["unweighted (a, b)", "unweighted (c)"]
    assert not found.same_seeds
    assert found.same


def test_the_same_label_of_another_method_is_another_method(fake_run):
    a, b = (fake_run(name, methods=("unweighted",), **SHORT) for name in "ab")
    change(b, methods=[{"name": "weighted", "label": "unweighted"}])
    assert labels(compared(a, b)) == ["unweighted (a)", "unweighted (b)"]


def test_another_scenario_is_said_and_nothing_is_marked(fake_run, tmp_path):
    a = fake_run("a", methods=("no_delay", "unweighted", "convert"))
    b = fake_run("b", methods=("first_order", "weighted"))
    change(b, latency={"kind": "fixed", "slow": 10}, title="Another title", threads=9)
    found = compared(a, b)
    assert [(one.key, one.values) for one in found.differing] == [("latency.slow", ("40", "10"))]
    write_comparison([a, b], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Not the same scenario" in page
    assert "latency.slow" in page
    assert '<b class="best">' not in page
    assert 'class="lede"' not in page


def test_server_optimizers_may_differ_and_are_named(fake_run, tmp_path):
    one = ("unweighted",)
    folders = [fake_run("a", methods=one, rounds=30, seeds=(0,))]
    folders.append(fake_run("b", methods=one, rounds=30, seeds=(1,)))
    write_comparison(folders, tmp_path / "page.html")
    assert "Server optimizer" not in (tmp_path / "page.html").read_text()
    change(folders[1], optimizer={"name": "fedavgm", "lr": 0.5, "momentum": 0.9})
    assert compared(*folders).same, "as with methods: the scenario is the same"
    write_comparison(folders, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Server optimizer" in page
    assert "fedavgm, lr 0.5, momentum 0.9" in page


def test_clients_that_differ_under_the_same_settings_are_noticed(fake_run):
    a, b = (fake_run(name, methods=("unweighted",), **SHORT) for name in "ab")
    path = b / "scenario" / "seed-1.json"
    scenario = json.loads(path.read_text())
    scenario["clients"][0]["histogram"][1] += 1
    path.write_text(json.dumps(scenario))
    assert [one.key for one in compared(a, b).differing] == ["clients of seed 1"]


def test_one_page_and_one_table_of_the_same_scenario(fake_run, tmp_path):
    a = fake_run("a", methods=("no_delay", "unweighted"))
    b = fake_run("b", methods=("no_delay", "convert"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    out = tmp_path / "deep" / "page.html"
    found = write_comparison([a, b], out)
    page = out.read_text()
    assert all(path.read_bytes() == content for path, content in before.items())
    assert "Over rounds 51 to 100, with slow clients 40 rounds late, " in page
    rows = re.findall(r"<tr[^>]*><th scope=\"row\">.*?</tr>", page, re.DOTALL)
    assert sum("convert</span>" in row for row in rows) == 2  # the summary and the classes
    assert "Not the same" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    alone = json.loads((b / "summary.json").read_text())["methods"]["convert"]
    table = as_summary(found.context, "both")
    for key in ("accuracy", "affected_mean", "held_from"):
        assert table["methods"]["convert"][key] == pytest.approx(alone[key])
    assert table["methods"]["convert"]["share_saved"] is None


def test_an_unfinished_run_makes_the_numbers_provisional(fake_run, tmp_path):
    a = fake_run("a", methods=("unweighted",))
    b = fake_run("b", methods=("convert",), finished=False, reached={("convert", 1): 40})
    write_comparison([a, b], tmp_path / "page.html")
    assert "At least one run is not finished" in (tmp_path / "page.html").read_text()


def test_hostile_names_stay_text(fake_run, tmp_path):
    a = fake_run("a<b>", methods=("unweighted",), title="<img src=x>", **SHORT)
    b = fake_run("b", methods=("unweighted",), rounds=30, seeds=(3,))
    write_comparison([a, b], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<img src=x" not in page
    assert "a<b>" not in page.split("<script")[0]
    assert "a&lt;b&gt;" in page


def test_a_place_that_cannot_be_written_is_named(fake_run, tmp_path):
    a, b = (fake_run(name, methods=("unweighted",), rounds=5, seeds=(0,)) for name in "ab")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="should be written into"):
        write_comparison([a, b], tmp_path / "file" / "page.html")


def test_the_same_folder_twice_has_two_names():
    assert len(set(short_names([Path("runs/a"), Path("runs/a")]))) == 2
