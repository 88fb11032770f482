import io
import re

from rich.console import Console

from unstale.cli.tables import summary_table


def shown(methods, seeds, width=140, **more):
    out = io.StringIO()
    summary = {
        "scenario": "quick", "rounds": 100, "seeds": seeds, "target": 0.8, "window": 10,
        "reference": "unweighted", "methods": methods, **more,
    }  # fmt: skip
    summary_table(summary, Console(file=out, width=width))
    return out.getvalue()


def figures(value, spread, held=12.4, held_seeds=2, seeds=2, **more):
    keys = ("accuracy", "affected_accuracy", "affected_mean")
    return {
        **dict.fromkeys(keys, value),
        "held_from": held,
        "held_seeds": held_seeds,
        "spread": {**dict.fromkeys(keys, spread), "held_from": spread and 100 * spread},
        "per_seed": [{}] * seeds,
        "seconds": 12.34,
        **more,
    }


def test_means_and_spread():
    text = shown({"weighted": figures(0.12345, 0.0456)}, [0, 1])
    assert "0.123 ±0.046" in text
    assert "12 ±5" in text
    assert "12.3" in text
    assert "2 seeds" in text
    assert "standard deviation" in text


def test_one_seed_has_no_spread():
    text = shown({"weighted": figures(0.5, None)}, [0])
    assert "±" not in text
    assert "1 seed;" in text


def test_what_has_no_value():
    nothing = figures(None, None, held=None)
    text = shown({"weighted": nothing, "convert": figures(0.5, None)}, [0])
    assert "never" in text
    assert "–" in text
    assert "held" not in shown({"weighted": nothing}, [0])  # no affected class, no time to it


def test_a_run_that_knows_nothing_of_affected_classes():
    known = {**figures(0.5, None, None), "affected_accuracy": None, "affected_mean": None}
    out = io.StringIO()
    summary = {"scenario": "s", "rounds": 9, "seeds": [0], "target": None, "methods": {"m": known}}
    summary_table(summary, Console(file=out, width=140))
    text = " ".join(out.getvalue().split())
    assert "0.500" in text
    assert "affected" not in text
    assert "held" not in text
    assert "accuracy: mean over the last fifth of the rounds" in text


def test_stand_ins_have_a_column_only_if_there_were_some():
    without = {**figures(0.5, 0.01), "stand_ins": 0.0}
    assert "stood" not in shown({"weighted": without}, [0])
    methods = {"weighted": without, "convert": {**figures(0.6, 0.01), "stand_ins": 103.3}}
    text = shown(methods, [0, 1], width=80)
    above, head, weighted, convert = (
        line.split()
        for line in text.splitlines()
        if re.search(r"stood *$|method|0\.500±|0\.600±", line)
    )
    assert (above, head[-3:]) == (["affected", "held", "stood"], ["from", "in", "seconds"])
    assert (weighted[-2], convert[-2]) == ("0", "103")
    assert len(convert) == 7  # nothing was broken into two lines
    assert "stood in: updates made for absent clients, per seed" in " ".join(text.split())


def test_the_widest_table_fits_into_80_characters():
    more = {"stand_ins": 142.0, "share_saved": 0.35}
    methods = {
        "unweighted": figures(0.857, 0.002, 143.0),
        "convert": figures(0.946, 0.002, 160.0, held_seeds=1, **more),
        "memory": figures(0.946, 0.002, 160.0, **more),
    }
    found = rows(shown(methods, [0, 1], width=80))
    best = ["*0.946±0.002"] * 3
    assert found["memory"] == [*best, "*160±0", "*35%", "142", "12.3"]
    assert found["convert"] == [*best, "160±0", "1/2", "35%", "142", "12.3"]


def test_a_summary_of_before_has_no_time():
    known = {key: value for key, value in figures(0.5, None).items() if "held" not in key}
    summary = {"scenario": "s", "rounds": 9, "seeds": [0], "target": 0.8, "methods": {"m": known}}
    out = io.StringIO()
    summary_table(summary, Console(file=out, width=140))
    assert "0.500" in out.getvalue()
    assert "held" not in out.getvalue()


def test_a_summary_of_before_has_no_stand_ins():
    methods = {"weighted": figures(0.5, None), "convert": {**figures(0.5, None), "stand_ins": 3.0}}
    assert " 3 " in shown(methods, [0])


def rows(text):
    """The cells of each row by its label; a value and its spread are two."""
    lines = [line.split() for line in text.splitlines() if re.search(r"\d\.\d{3}|never", line)]
    return {cells[0]: cells[1:] for cells in lines}


def test_the_best_are_starred_and_the_caption_says_among_whom():
    methods = {
        "no_delay": figures(0.99, None, 5.0, name="no_delay"),
        "quick": figures(0.9, None, 20.0),
        "same": figures(0.9, None, 20.3),
        "wrong": {**figures(1.0, None, 1.0), "accuracy": 0.1},
    }
    text = shown(methods, [0, 1])
    found = rows(text)
    assert found["no_delay"] == ["0.990", "0.990", "0.990", "5", "12.3"]
    assert found["quick"] == found["same"] == ["*0.900", "*0.900", "*0.900", "*20", "12.3"]
    assert found["wrong"][:4] == ["0.100", "1.000", "1.000", "1"]
    said = " ".join(text.split())
    assert "*: best of those whose accuracy ends at most 0.05 below the best" in said
    alone = shown({"quick": figures(0.9, None)}, [0])
    assert "*" not in alone


def test_what_held_from_means_and_in_how_many_seeds():
    methods = {"all": figures(0.5, 0.02, 40.0), "one": figures(0.5, None, 30.0, held_seeds=1)}
    text = shown(methods, [0, 1])
    assert "*40 ±2" in text
    assert re.search(r" 30 1/2 ", text)
    assert (
        "held from: the round from which affected accuracy, as a mean of 10 rounds, is at least "
        "0.8 to the end, over the seeds that do"
    ) in " ".join(text.split())
    assert "as a mean" not in shown(methods, [0, 1], window=1)


def test_rounds_saved_have_a_column_only_if_there_are_some():
    methods = {"unweighted": figures(0.9, None, 40.0), "quick": figures(0.9, None, 20.0)}
    assert "saved" not in shown(methods, [0])
    methods["quick"] |= {"share_saved": 0.4976}
    methods["slow"] = figures(0.9, None, 50.0, share_saved=-0.25)
    text = shown(methods, [0])
    found = rows(text)
    assert [cells[-2] for cells in found.values()] == ["–", "*50%", "-25%"]
    assert "saved: of the rounds that unweighted takes to that" in " ".join(text.split())


def test_protection_and_what_it_cost():
    protection = {"sparsity": 0.95, "clip": 1.0, "noise_multiplier": 2.0, "delta": 1e-5}
    spent = {"updates": 12, "epsilon": 17.26}
    privacy = {
        "protection": protection, "delta": 1e-5, "assumed": "for one client",
        "methods": {"weighted": spent},
    }  # fmt: skip
    text = shown({"weighted": figures(0.5, None)}, [0], privacy=privacy)
    assert re.search(r"ε +seconds", text)
    assert re.search(r"17\.3 +12\.3", text)
    told = " ".join(text.split())
    assert "95 % of entries left out, clipped to norm 1, noise of 2 times that norm" in told
    assert "ε: at δ = 1e-05, for one client" in told
    noisy = {"protection": {"noise_variance": 1e-3}}
    text = shown({"weighted": figures(0.5, None)}, [0], privacy=noisy)
    assert "noise of variance 0.001" in text
    assert "ε" not in text
