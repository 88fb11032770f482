"""The architecture page names files that are there, and a stale update passes those it lists."""

import re
import sys
from pathlib import Path

import torch
from doc_pages import ROOT, read
from test_links import AREAS, paths
from torch import nn

import unstale as us

SRC = Path(us.__file__).parent
PAGE = read(ROOT / "docs" / "architecture.md")
UPDATE = "One stale update through the simulator"
WALKS = (UPDATE, "From the average to the report page", "One reply through Flower")


def files_of(heading):
    """The file that each numbered item of a section begins with."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    items = re.findall(r"^(\d+)\. `([^`]+)`: ", section, re.MULTILINE)
    assert [int(number) for number, _ in items] == list(range(1, len(items) + 1))
    return [file for _, file in items]


def files_that_run(call):
    """The files of the package of which `call` runs a function."""
    seen = set()

    def watch(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and SRC in path.parents:
            seen.add(path.relative_to(SRC).as_posix())

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def test_every_listed_file_is_there():
    listed = [file for walk in WALKS for file in files_of(walk)]
    assert len(listed) > 35
    assert [file for file in listed if not (SRC / file).is_file()] == []
    assert set(listed) <= set(paths(PAGE)), "test_links.py should look at them, too"


def test_every_package_is_named():
    assert [area for area in AREAS if f"`{area}/" not in PAGE] == []


def test_a_stale_update_passes_the_files_up_to_the_average():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    local = us.LocalSpec(lr=0.1, epochs=2)
    inputs = us.InputSpec(shape=(4,), classes=2, low=0.0, high=1.0)
    server = us.Server(model, method="convert", local=local, inputs=inputs)

    def trained(client, label):
        version, params = server.check_out(client)
        x, y = torch.rand(20, 4), torch.full((20,), label)
        return us.Update(client, version, us.local_update(model, params, x, y, local), 20)

    stale = trained("slow", 1)
    for _ in range(2):
        server.submit(trained("a", 0))
        server.submit(trained("b", 0))
        server.step()

    def arrive():
        server.submit(stale)
        assert server.step().count("converted") == 1

    walk = files_of(UPDATE)
    assert walk[0] == "sim/engine.py"  # it hands the update over
    assert set(walk[1:]) <= files_that_run(arrive)
    assert f"These {len(walk)} files" in PAGE
