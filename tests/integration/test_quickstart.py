"""The quickstart as a newcomer runs it, with fewer rounds and one seed."""

import json
import tomllib
from importlib import resources


def test_from_the_command_to_the_report(finish, tmp_path):
    shortened = ("--seeds", "0", "--set", "rounds=60")  # slow clients answer once, from round 40 on
    code, out, err = finish("run", "quickstart", "--jobs", "2", *shortened, "--json", "--out", "r")
    assert code == 0, err

    text = (resources.files("unstale.experiment") / "quickstart.toml").read_text("utf-8")
    methods = [each.get("label", each["name"]) for each in tomllib.loads(text)["methods"]]
    found = json.loads(out)
    assert [*found["methods"]] == methods
    # The three slow clients answer once by round 60; from then on they can be stood in for.
    for label, figures in found["methods"].items():
        converts = label in ("convert", "arrivals")
        assert figures["conversions"] == (3.0 if converts else 0.0)
        assert (figures["stand_ins"] > 0) == (label in ("convert", "memory"))
    # Fives are learnt without delay; where late updates hardly weigh, they are not.
    affected = {label: figures["affected_mean"] for label, figures in found["methods"].items()}
    assert affected["no_delay"] > 0.8
    assert affected["polynomial"] < 0.05
    assert affected["convert"] > affected["arrivals"]
    (tmp_path / "r" / "summary.json").read_text()

    page = tmp_path / found["report"]
    shown = page.read_text()
    assert all(method in shown for method in methods)
    page.unlink()
    code, out, err = finish("report", "r")
    assert code == 0, err
    assert f"Report: {found['report']}" in out
    assert page.read_text() == shown
