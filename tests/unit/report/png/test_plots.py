import json

import pytest

from unstale.report.png import draw_plots

PNG = b"\x89PNG\r\n\x1a\n"


def test_every_chart_is_drawn(finished, context_of):
    plots = draw_plots(context_of(finished))
    assert set(plots) == {
        "affected_accuracy",
        "accuracy",
        "clients",
        "staleness",
        "class_accuracy",
        "conversions",
        "fallbacks",
        "refusals",
        "update_error",
        "update_error_l1",
        "fit_curves",
        "fit_loss",
        "fit_iterations",
        "gamma",
        "late_truth",
        "late_truth_l1",
        "surrogates",
    }
    for png in plots.values():
        assert png.startswith(PNG)
        assert len(png) > 5000


@pytest.mark.parametrize("name", ["$x_{", "_hidden", "汉字\u200f\n", "\ud800", "x" * 400])
def test_foreign_names_are_drawn_as_they_are(fake_run, context_of, name):
    folder = fake_run(rounds=3, seeds=(0,), methods=("no_delay", "unweighted"), clients=4)
    for path in (folder / "config.json", folder / "scenario" / "seed-0.json"):
        value = json.loads(path.read_text())
        value["classes"] = [name] * 10
        value["methods"] = [{"name": "x", "label": name}]
        path.write_text(json.dumps(value))
    (folder / "rounds" / "unweighted").rename(folder / "rounds" / "_under$core")
    # Warnings are errors in this suite: a missing glyph or a dropped legend entry would fail.
    plots = draw_plots(context_of(folder))
    assert plots["clients"].startswith(PNG)
    assert plots["affected_accuracy"].startswith(PNG)
