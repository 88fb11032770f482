"""The report's page says at the top which clients train by another recipe."""

import dataclasses

from unstale.report.html import build_page
from unstale.run_folder import Lines
from unstale.run_folder.schema import OtherRecipe

SMALL = {"rounds": 8, "methods": ("unweighted", "convert"), "clients": 10}
HOSTILE = '<script>alert("x")</script>'


def test_it_is_said_above_the_finding(fake_run, context_of):
    folder = fake_run(**SMALL, seeds=(0,))
    assert "Another recipe" not in build_page(context_of(folder))
    (path,) = (folder / "rounds" / "convert").glob("seed-*.jsonl")
    file = Lines(path)
    lines = file.read()
    file.cut(0)
    for line in lines:
        clients = [HOSTILE, *(f"c{i}" for i in range(7))] if line.number == 6 else []
        found = tuple(OtherRecipe(client, "adam", 1.5) for client in clients)
        file.append(dataclasses.replace(line, other_recipes=found))
    page = build_page(context_of(folder))
    assert page.index("Another recipe") < page.index('class="lede"')
    assert page.count("training with Adam instead of SGD") == 5
    assert "3 more clients." in page
    assert HOSTILE not in page
