"""Does standing in keep what only slow devices hold? Every scenario, staleness and method.

    python experiments/standing_in/study.py tune digits                # seeds 0 and 1
    python experiments/standing_in/study.py run digits --jobs 2
    python experiments/standing_in/study.py run digits --staleness 100 --set rounds=300
    python experiments/standing_in/study.py run mnist_one_class --data DIR --device cuda --jobs 8
    python experiments/standing_in/study.py run digits --only memory --seeds 12   # is added

`tune` tries three values of one setting of every method on tuning seeds at a staleness of 40
and writes what it chose to `results/SCENARIO_tuning.json`. `run` runs every method with
those values at 20, 40 and 100 on the seeds of the file and writes the accuracies of every
evaluated round to `results/SCENARIO_STALENESS.json`, with the commit of every method.
`tables.py` makes the tables from these files. Options that are not named here go to
`unstale run`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

from unstale.run_folder.provenance import provenance, require_clean, write_result

HERE = Path(__file__).parent
STALENESS = (20, 40, 100)
TUNED_AT = 40
TUNING_SEEDS = "0,1"
# A limit on the time of a run, for machines that are lent; what is done by then counts.
SECONDS = float(os.environ["SECONDS_EACH"]) if "SECONDS_EACH" in os.environ else None

# Three values of one setting each, the same number of trials for every method.
CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "weighted": [{"b": 10.0}, {"b": 40.0}, {"b": 100.0}],
    "first_order": [{"lam": 1.0}, {"lam": 10.0}, {"lam": 100.0}],
    "w_pred": [{"lam": 1.0}, {"lam": 10.0}, {"lam": 100.0}],
    "asyn_tiers": [{}, {"weighing": "reversed"}, {"bounds": [0, 60]}],
    "memory": [{}, {"max_age": 80}, {"max_age": 60}],
    "convert": [
        {"inversion.sparsity": 0.0},
        {"inversion.sparsity": 0.8},
        {"inversion.sparsity": 0.95},
    ],
    "arrivals_only": [
        {"inversion.sparsity": 0.0},
        {"inversion.sparsity": 0.8},
        {"inversion.sparsity": 0.95},
    ],
}
# Names of methods where the label is not the name.
NAMES = {
    "arrivals_only": "convert",
    "sparse_95": "convert",
    "one_update": "convert",
    "joins_late": "no_delay",  # of joining.py
}
# What is set whatever is tuned.
FIXED = {
    "arrivals_only": {"stand_in": False},
    "sparse_95": {"inversion.sparsity": 0.95},
    "one_update": {"inversion.history": 1},
}
# Rows beside the tuned ones, at one staleness.
EXTRA = ("sparse_95", "one_update")


def table(label: str, settings: dict[str, Any]) -> str:
    """Return one method of an experiment file.

    Example:
        >>> print(table("arrivals_only", {"inversion.sparsity": 0.8}), end="")
        [[methods]]
        name = "convert"
        label = "arrivals_only"
        stand_in = false
        inversion.sparsity = 0.8
    """
    both = {"name": NAMES.get(label.split("=")[0], label.split("=")[0]), "label": label}
    both |= FIXED.get(label.split("=")[0], {}) | settings
    return "[[methods]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in both.items())


def methods_to_tune() -> dict[str, dict[str, Any]]:
    """Return every trial by its label, such as `memory=1`; the slowest methods first."""
    return {
        f"{name}={i}": settings
        for name in reversed(CANDIDATES)
        for i, settings in enumerate(CANDIDATES[name])
    }


def methods_to_run(tuning: Path, staleness: int) -> dict[str, dict[str, Any]]:
    """Return every method with its tuned settings; the slowest first."""
    chosen = json.loads(tuning.read_text())["chosen"]
    found = {name: dict(chosen[name]) for name in reversed(CANDIDATES)}
    if "max_age" in found["memory"]:  # a bound on ages means something only beside a staleness
        found["memory"]["max_age"] = found["memory"]["max_age"] * staleness // TUNED_AT
    beside: dict[str, dict[str, Any]] = {label: {} for label in EXTRA}
    if staleness != TUNED_AT:
        beside = {}
    return {**beside, **found, "unweighted": {}, "no_delay": {}}


def launch(
    scenario: str, methods: dict[str, dict[str, Any]], staleness: int, options: list[str]
) -> dict[str, dict[str, list[list[float]]]]:
    """Run methods in a scenario; return [round, accuracy, affected] by method and seed."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, "config.toml"), Path(folder, "run")
        text = (HERE / f"{scenario}.toml").read_text().split("[[methods]]")[0]
        file.write_text(text + "".join(table(*item) for item in methods.items()))
        command = [sys.executable, "-m", "unstale", "run", str(file), "--out", str(out)]
        command += ["--no-report", "--set", f"latency.rounds={staleness}", *options]
        process = subprocess.Popen(command, stdout=sys.stderr)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
        found = {label: curves(out / "rounds" / label) for label in methods}
        ends = [curve[-1][0] for seeds in found.values() for curve in seeds.values()]
        if not ends:
            raise SystemExit(f"The run failed with exit code {process.returncode}.")
        # A run that was stopped keeps the methods and seeds that are done.
        last = max(ends)
        return {
            label: {seed: curve for seed, curve in seeds.items() if curve[-1][0] == last}
            for label, seeds in found.items()
        }


def curves(folder: Path) -> dict[str, list[list[float]]]:
    """Return the evaluated rounds of every seed: [round, accuracy, affected accuracy]."""
    found: dict[str, list[list[float]]] = {}
    for path in sorted(folder.glob("seed-*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.stem.removeprefix("seed-")] = [
            [line["round"], line["accuracy"], line["affected_accuracy"]]
            for line in lines
            if line["accuracy"] is not None
        ]
    return {seed: curve for seed, curve in found.items() if curve}


def late_mean(curve: list[list[float]], staleness: int, column: int = 2) -> float:
    """Return the mean affected accuracy from one staleness after the first answer on.

    Column 1 is the accuracy over all classes.

    Example:
        >>> late_mean([[80, 0.9, 0.1], [81, 0.9, 0.6], [82, 0.9, 0.8]], staleness=40)
        0.7
    """
    return fmean(row[column] for row in curve if row[0] > 2 * staleness)


def tune(scenario: str, results: Path, options: list[str]) -> None:
    """Choose each method's value by the late means of both accuracies, added.

    The affected class alone would choose values that keep it by ruining the others.
    """
    about = provenance(*seeds_and_device(scenario, ["--seeds", TUNING_SEEDS, *options]))
    require_clean(results)
    found = launch(scenario, methods_to_tune(), TUNED_AT, ["--seeds", TUNING_SEEDS, *options])
    tried = [
        {
            "method": label.split("=")[0],
            "settings": settings,
            "affected_late": fmean(late_mean(c, TUNED_AT) for c in found[label].values()),
            "accuracy_late": fmean(late_mean(c, TUNED_AT, 1) for c in found[label].values()),
        }
        for label, settings in methods_to_tune().items()
    ]
    chosen = {}
    for name in CANDIDATES:
        own = [trial for trial in tried if trial["method"] == name]
        best = max(own, key=lambda trial: trial["affected_late"] + trial["accuracy_late"])
        chosen[name] = best["settings"]
    write_result(results / f"{scenario}_tuning.json", about, {"tried": tried, "chosen": chosen})


def run(
    scenario: str,
    staleness: Sequence[int],
    tuning: Path,
    results: Path,
    only: Sequence[str],
    options: list[str],
) -> None:
    """Run everything that is reported; the values of staleness side by side.

    With `only`, the methods of these names; the others stay in the result files as they are, and
    so do seeds that are not run again.
    """
    about = provenance(*seeds_and_device(scenario, options))
    require_clean(results)

    def one(tau: int) -> None:
        path = results / f"{scenario}_{tau}.json"
        methods = methods_to_run(tuning, tau)
        if only:
            methods = {label: methods[label] for label in methods if label in only}
        made = dict.fromkeys(methods, about["commit"])
        found = launch(scenario, methods, tau, options)
        if only and path.exists():
            before = json.loads(path.read_text())
            earlier = before.get("about", before)["commit"]
            commits = before.get("commits", dict.fromkeys(before["runs"], earlier))
            for label, seeds in found.items():
                kept = {s: c for s, c in before["runs"].get(label, {}).items() if s not in seeds}
                if kept:
                    made[label] = f"{about['commit']} ({', '.join(seeds)}), {commits[label]}"
                found[label] = dict(sorted({**kept, **seeds}.items()))
            made = {**commits, **made}
            methods, found = {**before["methods"], **methods}, {**before["runs"], **found}
        columns = ["round", "accuracy", "affected"]
        content = {"commits": made, "methods": methods, "columns": columns, "runs": found}
        write_result(path, about, content)

    with ThreadPoolExecutor(len(staleness)) as pool:
        list(pool.map(one, staleness))


def seeds_and_device(scenario: str, options: list[str]) -> tuple[list[int], str]:
    """Return the seeds and the device of a run: the options', else the file's and the CPU."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--seeds")
    parser.add_argument("--device", default="cpu")
    given, _ = parser.parse_known_args(options)
    if given.seeds:
        return [int(seed) for seed in given.seeds.split(",")], given.device
    return tomllib.loads((HERE / f"{scenario}.toml").read_text())["seeds"], given.device


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("tune", "run"))
    parser.add_argument("scenario")
    parser.add_argument("--staleness", default=",".join(map(str, STALENESS)))
    parser.add_argument("--tuning", type=Path, help="the scenario's own if not given")
    parser.add_argument("--only", default="", help="methods to run; the results of others stay")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    known, options = parser.parse_known_args()
    if known.what == "tune":
        tune(known.scenario, known.results, options)
    else:
        tuning = known.tuning or known.results / f"{known.scenario}_tuning.json"
        taus = [int(tau) for tau in known.staleness.split(",")]
        only = [label for label in known.only.split(",") if label]
        run(known.scenario, taus, tuning, known.results, only, options)


if __name__ == "__main__":
    main()
