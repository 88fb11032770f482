"""The notebook of the examples runs from top to bottom.

Its cells are executed as a kernel would, without one: the last expression of a cell is what the
cell shows, and that has to have a form that a notebook can show. So no Jupyter is needed here.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"
# What makes it short: the same cells, with less to compute.
SHORTER = {
    "rounds=60": "rounds=5",
    '"rounds": 15': '"rounds": 3',
    "samples=100": "samples=20",
    "epochs=5": "epochs=1",
}


def cells():
    """The source of every code cell."""
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]


def run_cells(sources):
    """Run cells in one namespace; return what each shows."""
    namespace = {"__name__": "__main__"}
    shown = []
    for source in sources:
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), namespace)  # noqa: S102
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)  # noqa: S307
        shown.append(value)
    return shown


def test_the_notebook_is_committed_without_outputs():
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    assert NOTEBOOK.stat().st_size < 10_000


def test_the_notebook_runs_and_shows_table_and_plot(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sources = cells()
    for long, short in SHORTER.items():
        assert sum(long in source for source in sources) == 1
        sources = [source.replace(long, short) for source in sources]
    shown = run_cells(sources)
    tables = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    plots = [value._repr_png_() for value in shown if hasattr(value, "_repr_png_")]
    assert len(tables) == len(plots) == 1
    assert "<th>convert</th>" in tables[0]
    assert plots[0].startswith(b"\x89PNG")
    assert (tmp_path / "fives.png").is_file()
    assert (tmp_path / "runs" / "simulation-001" / "report.html").is_file()
    out, err = capsys.readouterr()
    assert "late update arrived: [4]" in out
    assert "convert seed 0 round 5/5" in err


@pytest.mark.slow
def test_the_whole_notebook_learns_what_only_the_slow_client_holds(tmp_path):
    script = tmp_path / "notebook.py"
    script.write_text("\n".join([*cells(), "print(found.methods['convert']['affected_accuracy'])"]))
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0.5
