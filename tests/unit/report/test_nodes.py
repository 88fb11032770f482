import json
import re

import pytest

from unstale.errors import RunError
from unstale.report import read_run
from unstale.report.html import build_page
from unstale.report.html.count_tables import MAX_NODES
from unstale.report.nodes import count_late, histories
from unstale.report.png import draw_plots
from unstale.run_folder.schema import Nodes, RefusedReply


def node(found, name):
    return next(one for one in found if one.name == name)


def test_a_simulation_has_no_nodes(finished):
    rounds = read_run(finished).rounds["unweighted"][0]
    assert all(record.nodes is None for record in rounds)
    assert read_run(finished).nodes == []
    assert read_run(finished).knows_affected


def test_nodes_over_a_run():
    found = histories(
        [
            Nodes(("a", "b"), {}, {"c": 0, "d": 0}),
            Nodes(("a", "c"), {"c": 1}, {"d": 1}, (RefusedReply("a", "norm", ""),)),
            Nodes(("a", "c"), {"c": 3}, {"d": 2}),
        ]
    )
    assert [one.name for one in found] == ["c", "d", "a", "b"]  # the latest first
    assert node(found, "c").lateness == (1, 3)
    assert node(found, "c").typical == 2
    assert node(found, "c").working is None
    assert (node(found, "d").working, node(found, "d").longest, node(found, "d").answers) == (
        2,
        2,
        0,
    )
    assert (node(found, "a").answers, node(found, "a").refused, node(found, "a").typical) == (
        3,
        1,
        0,
    )
    assert count_late(found) == (1, "1 to 3 rounds")


def test_a_node_that_was_late_once_is_usually_in_time():
    (found,) = histories([Nodes(("a",)), Nodes(("a",), {"a": 9}), Nodes(("a",))])
    assert (found.typical, found.longest) == (0, 9)


@pytest.mark.parametrize(
    ("late", "said"), [([], ""), ([1], "1 round"), ([4, 4], "4 rounds"), ([1, 2], "1 to 2 rounds")]
)
def test_how_late(late, said):
    found = histories([Nodes(("a",), {"a": n}) for n in late])
    assert count_late(found) == (int(bool(late)), said)


@pytest.mark.parametrize(
    "nodes",
    [5, {"late": {"a": -1}}, {"answered": "a"}, {"refused": ["a"]}, {"working": {"a": "x"}}],
)
def test_damage_is_told_with_its_line(fake_run, nodes):
    folder = fake_run(rounds=2, seeds=(0,), methods=("unweighted",))
    change(folder, lambda line: line | ({"nodes": nodes} if line["round"] == 2 else {}))
    with pytest.raises(RunError, match=r"seed-0\.jsonl, line 2 is damaged"):
        read_run(folder)


def change(folder, edit):
    """Make a run on real clients of a simulated one."""
    for path in (folder / "rounds").glob("*/*.jsonl"):
        found = [edit(json.loads(line)) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in found))
    for path in (folder / "scenario").glob("*.json"):
        path.unlink()


def section(page, key):
    return re.search(rf'<section id="{key}">(.*?)</section>', page, re.DOTALL)[1]


def test_many_nodes_and_foreign_names(fake_run, context_of):
    folder = fake_run(rounds=3, seeds=(0,), methods=("unweighted",))
    hostile = "</script><b>x"
    names = [f"n{i:03d}" for i in range(100)]

    def edit(line):
        late = {name: i for i, name in enumerate(names) if i} | {hostile: 500}
        return line | {"nodes": {"answered": [*names, hostile], "late": late}}

    change(folder, edit)
    context = context_of(folder)
    page = build_page(context)
    table = section(page, "nodes")
    assert table.count('<th scope="row">') == MAX_NODES
    assert table.index("&lt;/script&gt;&lt;b&gt;x") < table.index("n099") < table.index("n098")
    assert f"And {101 - MAX_NODES} more, late by 70 rounds at most." in table
    assert hostile not in page
    assert "<dt>Nodes</dt><dd>101</dd>" in page
    assert "seconds" in draw_plots(context)


def test_classes_by_the_configs_word(fake_run, context_of):
    folder = fake_run(rounds=5, seeds=(0,), methods=("unweighted",))
    change(folder, lambda line: line | {"nodes": {"answered": ["a"]}})
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config |= {"classes": [f"class {i}" for i in range(10)], "evaluate": {"affected": [7]}}
    path.write_text(json.dumps(config))
    page = build_page(context_of(folder))
    assert "<dt>Affected class</dt><dd>class 7</dd>" in page
    head = re.findall(r'<th scope="col" class="num.*?">(.*?)</th>', section(page, "classes"))
    assert re.sub("<.*?>", "", head[0]) == "◆ class 7"


def test_without_affected_classes_nothing_is_said_of_them(fake_run, context_of):
    folder = fake_run(rounds=5, seeds=(0,), methods=("unweighted", "weighted"))
    change(folder, lambda line: line | {"nodes": {"answered": ["a"]}, "affected_accuracy": None})
    (folder / "summary.json").unlink()
    context = context_of(folder)
    page = build_page(context)
    shown = page.split("</style>")[1].split("<script>")[0].split('id="setup"')[0]
    assert "ffected" not in shown
    assert "target" not in section(page, "summary")
    assert "All classes" in section(page, "summary")
    assert {"accuracy", "class_accuracy"} <= set(draw_plots(context))
    assert "affected_accuracy" not in draw_plots(context)
