import io
import re

from rich.console import Console

from unstale.cli.tables import summary_table


def shown(methods, seeds, width=140):
    out = io.StringIO()
    summary = {
        "scenario": "quick", "rounds": 100, "seeds": seeds, "target": 0.8, "methods": methods
    }  # fmt: skip
    summary_table(summary, Console(file=out, width=width))
    return out.getvalue()


def figures(value, spread, to_target=12.4):
    keys = ("accuracy", "affected_accuracy", "affected_mean")
    return {
        **dict.fromkeys(keys, value),
        "rounds_to_target": to_target,
        "spread": {**dict.fromkeys(keys, spread), "rounds_to_target": spread},
        "seconds": 12.34,
    }


def test_means_and_spread():
    text = shown({"weighted": figures(0.12345, 0.0456)}, [0, 1])
    assert "0.123 ±0.046" in text
    assert "12" in text
    assert "12.3" in text
    assert "2 seeds" in text
    assert "standard deviation" in text


def test_one_seed_has_no_spread():
    text = shown({"weighted": figures(0.5, None)}, [0])
    assert "±" not in text
    assert "1 seed;" in text


def test_what_has_no_value():
    text = shown({"weighted": figures(None, None, to_target=None)}, [0])
    assert "never" in text
    assert "–" in text


def test_a_run_that_knows_nothing_of_affected_classes():
    known = {**figures(0.5, None, None), "affected_accuracy": None, "affected_mean": None}
    out = io.StringIO()
    summary = {"scenario": "s", "rounds": 9, "seeds": [0], "target": None, "methods": {"m": known}}
    summary_table(summary, Console(file=out, width=140))
    text = " ".join(out.getvalue().split())
    assert "0.500" in text
    assert "affected" not in text
    assert "target" not in text
    assert "accuracy: mean over the last fifth of the rounds" in text


def test_stand_ins_have_a_column_only_if_there_were_some():
    without = {**figures(0.5, 0.01), "stand_ins": 0.0}
    assert "stood" not in shown({"weighted": without}, [0])
    methods = {"weighted": without, "convert": {**figures(0.6, 0.01), "stand_ins": 103.3}}
    text = shown(methods, [0, 1], width=80)
    above, head, weighted, convert = (
        line.split()
        for line in text.splitlines()
        if re.search(r"stood *$|method|0\.500 ±|0\.600 ±", line)
    )
    assert (above, head[-3:]) == (["affected", "to", "stood"], ["target", "in", "seconds"])
    assert (weighted[-2], convert[-2]) == ("0", "103")
    assert len(convert) == 10  # nothing was broken into two lines
    assert "stood in: updates made for absent clients, per seed" in " ".join(text.split())


def test_a_summary_of_before_has_no_stand_ins():
    methods = {"weighted": figures(0.5, None), "convert": {**figures(0.5, None), "stand_ins": 3.0}}
    assert " 3 " in shown(methods, [0])
