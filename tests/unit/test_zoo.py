"""The zoo in `experiments/zoo`: its cells, its networks, and a run of two tiny cells."""

import doctest
import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

from unstale import LocalSpec, local_update, models
from unstale.errors import RunError
from unstale.params import flatten
from unstale.seeding import generator
from unstale.sim.training import Work, train_cohort

ZOO = Path(__file__).parents[2] / "experiments" / "zoo"
MODULES = ("nets", "parts", "cells", "methods", "jobs", "run", "figures", "tables")

TINY = """
[[cells]]
name = "small"
data = "digits"
scaling = "signed"
model = "mlp"
settings = { hidden = [4] }
clients = { kind = "dirichlet", alpha = 0.3, samples = 12, count = 4 }
local = { lr = 0.1, steps = 2 }
staleness = 2
slow = 2
begin = 1
arrivals = 2
every = 1

[[cells]]
name = "too_many"
data = "digits"
scaling = "unit"
model = "digits"
clients = { kind = "one_class", samples = 5000, count = 4 }
local = { lr = 0.1 }
staleness = 20

[[cells]]
name = "no_data"
data = "mnist"
scaling = "unit"
model = "mlp"
clients = { kind = "one_class", samples = 10, count = 4 }
local = { lr = 0.1 }
staleness = 20
"""


@pytest.fixture(scope="module")
def zoo():
    """The zoo's modules, which import each other by bare names; forgotten afterwards."""
    known, registered = dict(sys.modules), dict(models.registry.BUILDERS)
    sys.path.insert(0, str(ZOO))
    for name in MODULES:
        sys.modules.pop(name, None)
    yield {name: importlib.import_module(name) for name in MODULES}
    sys.path.remove(str(ZOO))
    for name in MODULES:
        sys.modules.pop(name, None)
        if name in known:
            sys.modules[name] = known[name]
    models.registry.BUILDERS.clear()
    models.registry.BUILDERS.update(registered)


@pytest.mark.parametrize("name", ["nets", "cells", "methods", "jobs", "figures", "tables"])
def test_examples_hold(zoo, name):
    outcome = doctest.testmod(zoo[name])
    assert outcome.attempted > 0
    assert outcome.failed == 0


# --- cells


def test_the_cells_cover_what_the_readme_says(zoo):
    cells = list(zoo["cells"].read_cells().values())
    values = {name: {getattr(c, name) for c in cells} for name in ("model", "data", "scaling")}
    assert values["model"] == {
        "lenet", "resnet18", "cnn", "mlp", "digits", "cnn1d", "gru", "transformer",
    }  # fmt: skip
    assert values["data"] == set(zoo["parts"].SIZES)
    assert values["scaling"] == set(zoo["cells"].SCALINGS)
    assert {c.staleness for c in cells} == {5, 10, 20, 45, 100}
    assert {c.settings.get("activation") for c in cells} >= {"elu", "tanh", "gelu"}
    assert {c.settings.get("pool") for c in cells} >= {None, "max", "mean"}
    local = [LocalSpec(**c.local) for c in cells]
    assert {spec.batch_size for spec in local} == {None, 20, 32}
    assert {spec.momentum for spec in local} == {0.0, 0.5, 0.9}
    assert any(spec.optimizer == "adam" and spec.batch_size for spec in local)
    assert any(spec.prox for spec in local)
    steps = [s.num_steps(c.clients["samples"]) for s, c in zip(local, cells, strict=True)]
    assert (min(steps), max(steps)) == (1, 50)
    samples = [c.clients["samples"] for c in cells]
    assert (min(samples), max(samples)) == (20, 450)
    alphas = {c.clients["alpha"] for c in cells if c.clients["kind"] == "dirichlet"}
    assert (min(alphas), max(alphas)) == (0.05, 1.0)
    assert {c.clients["kind"] for c in cells} == {"one_class", "dirichlet", "user"}
    assert sum(c.staleness >= 20 for c in cells) >= 2 / 3 * len(cells)
    assert 8 <= sum(c.quick for c in cells) <= 12


def test_late_clients_are_apart(zoo):
    for count, slow in ((20, 4), (12, 2), (16, 4), (5, 5), (8, 3)):
        found = zoo["cells"].late_clients(count, slow)
        assert len(set(found)) == slow
        assert 0 <= min(found) <= max(found) < count


@pytest.mark.parametrize(
    ("scaling", "low", "high"),
    [("unit", 0, 1), ("signed", -1, 1), ("standardised", -0.305 / 0.376, 0.695 / 0.376)],
)
def test_inputs_are_within_the_bounds_of_their_scaling(zoo, scaling, low, high):
    cells = zoo["cells"]
    cell = cells.Cell("a", "digits", scaling, "digits", {}, {}, 20)
    part = zoo["parts"].load_part("digits", None)
    x, *bounds = cells.scaled(part.x, cell, part)
    assert bounds == pytest.approx([low, high])
    assert [float(x.min()), float(x.max())] == pytest.approx([low, high])


def test_hapt_as_published_has_gravity_and_no_bounds(zoo):
    cells, parts = zoo["cells"], zoo["parts"]
    cell = cells.Cell("a", "hapt", "published", "cnn1d", {}, {}, 20)
    x = torch.zeros(2, 6, 5)
    part = parts.Part(x, x, x, x, None, 12, -10.0, 10.0)
    found, low, high = cells.scaled(x, cell, part)
    assert (low, high) == (None, None)
    assert found[0, :, 0].tolist() == pytest.approx(cells.HAPT_MEAN)


def test_unknown_fields_are_refused(zoo, tmp_path):
    file = tmp_path / "cells.toml"
    file.write_text(TINY.replace("staleness = 2\n", "staleness = 2\ntau = 2\n"))
    with pytest.raises(zoo["cells"].ConfigError, match=r"Found \['tau'\]"):
        zoo["cells"].read_cells(file)


def test_a_file_of_parts_gives_the_same_data(zoo, tmp_path, monkeypatch):
    parts, file = zoo["parts"], tmp_path / "parts.npz"
    monkeypatch.setattr(parts, "SIZES", {"digits": 100})
    monkeypatch.setattr(sys, "argv", ["parts.py", "--out", str(file)])
    parts.main()
    one, other = parts.load_part("digits", None), parts.load_part("digits", file)
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)
    assert len(one.y) == 100
    assert (one.classes, one.low, one.high) == (other.classes, other.low, other.high)
    with pytest.raises(parts.DataError, match="should hold 'mnist'"):
        parts.load_part("mnist", file)


# --- networks


NETS = [
    ("cnn", (1, 8, 8), {"activation": "elu"}),
    ("cnn", (3, 9, 7), {"activation": "tanh", "pool": "mean"}),
    ("cnn", (1, 8, 8), {"activation": "gelu", "pool": "max"}),
    ("gru", (1, 8, 8), {"window": 2, "hidden": 6}),
    ("gru", (6, 20), {"window": 8, "hidden": 6}),
    ("transformer", (1, 8, 8), {"window": 2, "hidden": 6}),
    ("transformer", (30,), {"window": 15, "hidden": 6}),
]


@pytest.mark.parametrize(("name", "shape", "settings"), NETS)
def test_networks_train_stacked_as_alone_and_differentiate_twice(zoo, name, shape, settings):
    model = models.build(name, shape, 3, seed=1, **settings).double()
    params = {n: p.detach() for n, p in model.named_parameters()}
    rng = generator(0, "test")
    x = torch.randn(2, 5, *shape, generator=rng, dtype=torch.double)
    y = torch.randint(3, (2, 5), generator=rng)
    local = LocalSpec(lr=0.1, momentum=0.5, steps=2)

    def work():
        return [Work(params, x[i], y[i], generator(0, "test", i)) for i in range(2)]

    alone = train_cohort(model, work(), local, batched=False)
    stacked = train_cohort(model, work(), local, batched=True)
    for a, b in zip(alone, stacked, strict=True):
        torch.testing.assert_close(flatten(a), flatten({n: b[n] for n in a}))

    # The derivative of an update by the data, against a finite difference.
    way = torch.randn(x[0].shape, generator=rng, dtype=torch.double)
    data = x[0].clone().requires_grad_()
    size = flatten(local_update(model, params, data, y[0], local)).square().sum()
    slope = float((torch.autograd.grad(size, data)[0] * way).sum())

    def at(step):
        return float(
            flatten(local_update(model, params, x[0] + step * way, y[0], local)).square().sum()
        )

    assert slope != 0
    assert (at(1e-6) - at(-1e-6)) / 2e-6 == pytest.approx(slope, rel=1e-4, abs=1e-9)


def test_tokens_are_rows_windows_and_runs(zoo):
    tokens = zoo["nets"].tokens
    image = torch.arange(12.0).reshape(1, 1, 4, 3)
    assert tokens(image, 2)[0].tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    colours = torch.arange(16.0).reshape(1, 2, 4, 2)
    assert tokens(colours, 1)[0, 0].tolist() == [0, 1, 8, 9]
    series = torch.arange(10.0).reshape(1, 2, 5)
    assert tokens(series, 2)[0].tolist() == [[0, 5, 1, 6], [2, 7, 3, 8]]
    assert tokens(torch.arange(6.0).reshape(1, 6), 3)[0].tolist() == [[0, 1, 2], [3, 4, 5]]


# --- a run


@pytest.fixture(scope="module")
def lines(zoo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "cells.toml").write_text(TINY)
    out = folder / "out.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        words = ["run.py", "--file", folder / "cells.toml", "--seeds", "0", "--out", out]
        words += ["--data", folder, "--methods", "first_order"]
        words += ["--try", "brief", "iterations=3", "warm_iterations=2", "max_loss=0.99"]
        patch.setattr(sys, "argv", list(map(str, words)))
        patch.setenv("COMMIT", "abc1234")
        zoo["run"].main()
    return out


def test_a_run_writes_a_line_for_every_cell(zoo, lines):
    first, *found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert first["commit"] == "abc1234"
    assert str(lines.parent) not in lines.read_text()
    assert "iterations=3" in first["methods"]["brief"]
    assert [(line["cell"], line["status"]) for line in found] == [
        ("small", "done"),
        ("too_many", "failed"),
        ("no_data", "skipped"),
    ]
    assert "samples" in found[1]["reason"]
    assert "mnist" in found[2]["reason"]
    small = found[0]
    # Two late clients, two arrivals, two methods, the update as it came, and half of the data.
    assert len(small["rows"]) == 16
    assert {row[0] for row in small["rows"]} == {"stale", "first_order", "brief", "half"}
    assert all(len(row) == len(first["columns"]) for row in small["rows"])
    assert [point["version"] for point in small["path"]] == [0, 1, 4]
    assert small["path"][-1]["train"] < small["path"][0]["train"]


def test_the_tables_of_a_run(zoo, lines, capsys, monkeypatch):
    with lines.open("a") as file:
        file.write('{"cell": "cut')
    monkeypatch.setattr(sys, "argv", ["tables.py", str(lines)])
    zoo["tables"].main()
    text = capsys.readouterr().out
    assert "### Summary: brief" in text
    assert "| small | 2 |" in text
    assert "| too_many | 0 | failed |" in text
    assert "| no_data | 0 | skipped |" in text
    _, found = zoo["figures"].read([lines])
    (small,) = zoo["figures"].results(found)
    stale = [row for row in small.rows if row["method"] == "stale" and row["arrival"] == 0]
    assert small.error("stale", "first") == pytest.approx(sum(r["cosine"] for r in stale) / 2)
    assert small.ratio("stale", "run") == pytest.approx(1)


def result(zoo, name, tau, stale, default):
    rows = [
        {"method": method, "client": 0, "arrival": arrival, "cosine": value, "last": 4}
        for method, values in (("stale", stale), ("default", default))
        for arrival, value in enumerate(values)
    ]
    return zoo["figures"].Result(name, tau, [], rows)


def test_the_summary_counts_what_meets_the_aims(zoo):
    found = [
        result(zoo, "good", 20, [0.4, 9, 0.3, 0.3, 0.3], [0.2, 9, 0.0, 0.09, 0.2]),
        result(zoo, "bad", 45, [0.4, 9, 0.3, 0.3, 0.3], [0.1, 9, 0.3, 0.3, 0.4]),
        result(zoo, "early", 5, [0.4, 9, 0.3, 0.3, 0.3], [0.3, 9, 0.2, 0.2, 0.2]),
        result(zoo, "broken", 20, [0.4, 9, 0.3, 0.3, 0.3], [0.1, 9, 0.1, 0.1, None]),
    ]
    found.append(result(zoo, "without", 20, [0.4] * 5, []))
    rows = zoo["tables"].summary(found, "default").splitlines()[2:]
    cells = [row.strip("| ").split(" | ")[1] for row in rows]
    assert cells[:2] == ["1 of 3", "3 of 4"]
    assert cells[2] == "broken (run) –"
    assert cells[3] == "bad (run) 1.11; broken (run) –"
    assert cells[4] == "bad 1.1; broken –"
    assert cells[5] == "early 0.75"


def test_results_come_from_a_clean_commit(zoo, monkeypatch):
    out = ZOO / "results" / "never_written.jsonl"
    monkeypatch.setattr(sys, "argv", ["run.py", "--out", str(out), "--quick"])
    monkeypatch.setenv("COMMIT", "abc1234-dirty")
    with pytest.raises(RunError, match=r"clean commit\. Found abc1234-dirty"):
        zoo["run"].main()
    assert not out.exists()


def test_sparse_methods_are_named_by_what_they_use(zoo):
    found = zoo["methods"].METHODS
    whole, alone = found["sparse_95"].inversion, found["sparse_95_alone"].inversion
    assert (whole.sparsity, whole.residual) == (0.95, True)
    assert (alone.sparsity, alone.residual) == (0.95, False)
    assert {f"sparse_{n}" for n in (0, 50, 80, 90, 95, 99)} <= set(found)
