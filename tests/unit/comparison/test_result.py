"""What a comparison shows of its run folder, and the progress on the way."""

import html.parser

import pytest
import torch
from torch import nn

import unstale as us
from unstale.comparison.progress import SimulationProgress, stderr_console
from unstale.errors import ConfigError, RunError, UnknownNameError

Y = torch.arange(60) % 3
X = torch.rand(60, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return us.simulate(
        lambda: nn.Linear(4, 3),
        (X, Y, X, Y),
        clients=4,
        slow={"classes": [1], "clients": 1, "rounds": 1},
        methods={"<as it comes>".strip("<>").replace(" ", "-"): "unweighted", "w": "weighted"},
        rounds=3,
        seeds=[0, 1],
        out=tmp_path_factory.mktemp("run"),
        progress=False,
    )


def test_the_table_is_that_of_the_command_line(found):
    text = found.table()
    assert str(found) == text
    assert "as-it-comes" in text
    assert "affected" in text
    assert "3 rounds, 2 seeds" in text
    assert repr(found).endswith(f"Run: {found.folder}")


def test_a_notebook_shows_table_and_plot(found):
    shown = found._repr_html_()
    cells = []

    class Reader(html.parser.HTMLParser):
        def handle_data(self, text):
            cells.append(text)

    Reader().feed(shown)
    assert {"method", "accuracy", "as-it-comes", "w"} <= set(cells)
    assert 'src="data:image/png;base64,iVBOR' in shown


def test_the_plot_is_a_figure_and_a_file(found, tmp_path):
    plot = found.plot(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert plot._repr_png_().startswith(b"\x89PNG")
    (axes,) = plot.figure.axes
    assert "affected class" in axes.get_ylabel()
    assert plot.save(tmp_path / "a.svg").read_text().startswith("<?xml")


def test_the_report_is_written_into_the_folder(found):
    page = found.report()
    assert page == found.folder / "report.html"
    assert "as-it-comes" in page.read_text()


def test_rounds_of_a_method(found):
    assert [line.number for line in found.rounds("w", seed=1)] == [1, 2, 3]
    with pytest.raises(UnknownNameError, match="A method of this comparison"):
        found.rounds("v")
    with pytest.raises(ConfigError, match=r"one of \[0, 1\]. Found 2"):
        found.rounds("w", seed=2)


def test_any_finished_run_folder_will_do(found, tmp_path):
    assert us.Comparison(str(found.folder)).methods == found.methods
    with pytest.raises(RunError, match="of a finished run"):
        us.Comparison(tmp_path)


def test_progress_says_the_time_left_on_stderr(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("unstale.cli.progress.QUIET_SECONDS", 0)
    us.simulate(
        lambda: nn.Linear(4, 3), (X, Y, X, Y), clients=4, methods=["unweighted"], rounds=3,
        out=tmp_path / "r",
    )  # fmt: skip
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == f"simulation → {tmp_path / 'r'}"
    assert "unweighted seed 0 round 1/3 accuracy" in lines[1]
    assert "s left)" in lines[1]
    assert "left" not in lines[3]


def test_a_notebook_gets_plain_lines(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ipykernel", object())
    console = stderr_console()
    assert console.stderr
    assert not console.is_jupyter
    assert not console.is_terminal
    assert SimulationProgress().console.width == console.width
