"""A small folder `experiments`, with two items on digits and a script."""

import pytest

PAPER = """
[[entries]]
kind = "table"
number = 1
label = "one"
about = "two methods"
place = "Section 1"
[[entries]]
kind = "table"
number = 2
label = "two"
about = "decisions"
place = "Section 1"
[[entries]]
kind = "figure"
number = 1
label = "fig"
about = "another one"
place = "Section 1"
[[entries]]
kind = "figure"
number = 2
label = "none"
about = "what is missing"
place = "Appendix"
left = "not built"
why = "Needs a telescope."
"""
CONFIG = """
rounds = 40
seeds = [10, 11, 12]
overlap = true
[data]
name = "digits"
[model]
name = "digits"
[partition]
kind = "one_class"
clients = 30
samples = 20
[tuning]
seeds = [0]
[[methods]]
name = "unweighted"
[[methods]]
name = "first_order"
tune = { lam = [1.0, 5.0] }
"""
ITEM = """
title = "Two methods"
makes = ["one"]
[[runs]]
name = "first"
column = "τ = 40"
tune = true
[[runs]]
name = "second"
column = "τ = 10"
set = { "latency.rounds" = 10 }
smoke = { "latency.rounds" = 2 }
[[tables]]
paper = "one"
measure = "affected_accuracy"
[tables.rows]
unweighted = [57.4, 72.6]
first_order = []
"""
SHARED = """
title = "The same again"
makes = ["fig"]
[[runs]]
of = "small/first"
column = "again"
"""
SCRIPT = """
title = "A script"
makes = ["two"]
[[scripts]]
name = "study"
file = "study.py"
arguments = ["--value", 0.9]
smoke = ["--value", 0.5]
seeds = [1, 2]
out = "seed_{seed}.json"
[[tables]]
paper = "two"
measure = "file"
title = "share, %"
key = "*/at/{row}"
[tables.rows]
20 = [74.6]
"""
STUDY = """
import json, sys
words = sys.argv[1:]
option = dict(zip(words[::2], words[1::2]))
value = float(option["--value"]) + 0.01 * int(option["--seeds"])
if "--data" in option and option["--data"].endswith("wrong"):
    sys.exit("no such data")
about = {"commit": "abc", "command": "x", "seeds": [int(option["--seeds"])]}
with open(option["--out"], "w") as file:
    json.dump({"about": about, "mnist": {"at": {"20": value}}}, file)
if "--data" in option and option["--data"].endswith("cut"):
    sys.exit("cut off, with a part of the result written")
"""


@pytest.fixture
def experiments(tmp_path):
    """The folder; tests change what they need."""
    folder = tmp_path / "experiments"
    files = {
        "paper.toml": PAPER,
        "small/config.toml": CONFIG,
        "small/item.toml": ITEM,
        "shared/item.toml": SHARED,
        "script/item.toml": SCRIPT,
        "script/study.py": STUDY,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
