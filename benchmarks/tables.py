"""The tables of the pages, from result files; named in the markers of these pages."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
MACHINES = {
    "cpu": "2 CPU cores (x86-64), PyTorch 2.13",
    "cuda": "NVIDIA H200, PyTorch 2.11",
}
MODELS = {"lenet": "LeNet", "resnet18": "ResNet-18"}
STARTS = {
    "same": "the same versions",
    "phases": "every 40 rounds, random phases",
    "apart": "no two the same",
}
ON_FLOWER = {
    "FedAvg": "FedAvg",
    "Unstale": "Unstale",
    "Unstale, nothing written": "Unstale, no folder",
    "no conversions": "no conversions",
    "in the step": "in the step",
    "background thread": "`Background()`",
    "background process": "`Background(Processes(1))`",
}


def rounds() -> str:
    """Return rounds per second beside a plain loop."""
    head = ["machine", "recipe", "unstale, rounds/s", "plain loop, rounds/s"]
    rows = []
    for device, machine in MACHINES.items():
        for recipe, row in _read(f"rounds_{device}.json")["rows"].items():
            ratio = row["plain_ms"] / row["unstale_ms"]
            cells = [_digits(1e3 / row["unstale_ms"]), _digits(1e3 / row["plain_ms"])]
            cpu = row["plain_cpu_ms"] / row["unstale_cpu_ms"]
            rows.append([machine, recipe, *cells, f"**{_digits(ratio, 2)}**", _digits(cpu, 2)])
    return _table([*head, "ratio", "ratio of CPU time"], rows)


def conversions(device: str) -> str:
    """Return seconds and errors of conversions; `~` where fewer iterations were run."""
    head = ["how", "at once", "samples", "iterations", "seconds each", "error", "ms/iteration"]
    rows = []
    for row in _read(f"conversion_{device}.json")["rows"]:
        scaled = "~" if row["scaled"] != 1 else ""
        how = "preset `paper_dense`" if row["way"] == "paper" else f"default, {row['start']}"
        known = row["error"] is not None and not scaled  # else that of fewer iterations
        error = f"{row['error']:.4f}" if known else ""
        cells = [str(row["at_once"]), str(row["samples"]), f"{row['iterations']:,.0f}"]
        cells += [f"{scaled}{_digits(row['seconds'])}", error, _digits(row["ms_per_iteration"])]
        rows.append([how, *cells, f"{100 * row['arithmetic']:.1f} %"])
    return _table([*head, "arithmetic"], rows)


def verdicts(device: str, *names: str) -> list[float]:
    """Return what was found for aims of the conversion benchmark."""
    found = _read(f"conversion_{device}.json")["verdicts"]
    return [found[name]["found"] for name in names]


def seconds(device: str, way: str, start: str, at_once: str) -> float:
    """Return the seconds of one kind of conversion, as in the table."""
    rows = _read(f"conversion_{device}.json")["rows"]
    wanted = (way, start, int(at_once))
    (row,) = (r for r in rows if (r["way"], r["start"], r["at_once"]) == wanted)
    return row["seconds"]


def conversion_costs(device: str) -> str:
    """Return what conversions cost as a server runs them."""
    found = _read(f"conversion_cost_{device}.json")
    head = ["model", "precision", "samples", "first, s", "later, s", "ten later ones at once, s"]
    rows = []
    for model in [name for name in MODELS if name in found]:
        for precision in ("float32", "tf32"):
            if (row := found[model].get(precision)) is None:
                continue
            ten = "–"
            if "ten_at_once" in row:
                ten = f"{_digits(row['ten_at_once'])} ({_digits(row['ten_to_one'], 2)} × one)"
            cells = [str(row["samples"]), _digits(row["cold"]), _digits(row["warm"]), ten]
            rows.append([MODELS[model], precision, *cells])
    return _table(head, rows)


def cost(device: str, *path: str) -> list[float]:
    """Return figures of the cost of conversions, by `/`-separated keys."""

    def at(keys: str) -> float:
        found: Any = _read(f"conversion_cost_{device}.json")
        for key in keys.split("/"):
            found = found[key]
        return float(found)

    return [at(keys) for keys in path]


def matrix_product(device: str, unit: str) -> float:
    """Return the rate of a large matrix product beside the conversions."""
    rate = _read(f"conversion_{device}.json")["setting"]["matmul_flop_per_second"]
    return rate / float(unit)


def recorded() -> str:
    """Return an iteration run eagerly and recorded as a CUDA graph."""
    rows = [
        [str(r["clients"]), str(r["updates"]), f"{r['eager_ms']:.1f}", f"{r['recorded_ms']:.1f}",
         f"{r['eager_ms'] / r['recorded_ms']:.1f}"]
        for r in _read("inversion_on_cuda.json")["rows"]
    ]  # fmt: skip
    return _table(["clients", "updates each", "eager, ms", "recorded, ms", "ratio"], rows)


def long_recipes(examples: str) -> str:
    """Return milliseconds and memory of one iteration for clients of so many examples."""
    found = [r for r in _read("long_recipes_cpu.json")["rows"] if r["examples"] == int(examples)]
    full = found[0]["ms"]
    rows = [
        [r["way"], str(r["steps"]), f"{r['ms']:.0f}", f"{r['ms'] / full:.2f}",
         f"{r['peak_mib']:.1f}"]
        for r in found
    ]  # fmt: skip
    return _table(["way", "steps", "ms/iteration", "× full batch", "peak, MiB"], rows)


def stand_ins() -> str:
    """Return what a round pays for absent clients."""
    head = ["model", "samples of a surrogate", "one stand-in, s", "ten, s", "a warm conversion, s"]
    head += ["the two beside each other, s", "one/conversion", "ten/conversion"]
    rows = []
    for model in MODELS:
        for row in _read(f"stand_ins_cpu_{model}.json")["rows"]:
            times = row["seconds"]
            parts = ("one", "ten", "conversion", "conversion_and_ten")
            cells = [MODELS[model], str(row["samples"]), *(_digits(times[part]) for part in parts)]
            cells += [f"1/{_digits(times['conversion'] / times[k], 2)}" for k in ("one", "ten")]
            rows.append(cells)
    return _table(head, rows)


def stand_ins_on_gpu() -> list[float]:
    """Return milliseconds on the H200: one, ten, a conversion, and a conversion with ten."""
    lines = (RESULTS / "stand_ins_h200.txt").read_text(encoding="utf-8").splitlines()
    cells = next(line for line in lines if line.startswith("| lenet")).split("|")
    return [1e3 * float(cells[at]) for at in (3, 4, 6, 7)]


def history() -> str:
    """Return the memory of past updates."""
    head = ["model", "slow clients", "updates start from", "base versions"]
    head += ["updates, MB", "bases, MB", "before, MB", "now, MB"]
    rows = []
    for row in _read("history_memory.json")["rows"]:
        sizes = [row[f"{key}_bytes"] / 1e6 for key in ("deltas", "bases", "before", "after")]
        cells = [f"{size:.1f}" if size < 100 else f"{size:.0f}" for size in sizes]
        model = f"{MODELS[row['model']]} ({row['weights']:,} weights)"
        start = STARTS[row["schedule"]]
        rows.append([model, str(row["clients"]), start, str(row["versions"]), *cells])
    return _table(head, rows)


def history_bytes(model: str, clients: str, schedule: str, unit: str) -> float:
    """Return the bytes of past updates, in a unit such as 1e6."""
    rows = _read("history_memory.json")["rows"]
    wanted = (model, int(clients), schedule)
    (row,) = (r for r in rows if (r["model"], r["clients"], r["schedule"]) == wanted)
    return row["after_bytes"] / float(unit)


def flower_rounds() -> str:
    """Return rounds on Flower beside its FedAvg."""
    head = ["", "best block, ms/round", "ratio", "ratio, median of turns"]
    rows = [
        [ON_FLOWER[name], f"{r['round_ms']:.0f}", _ratio(r["ratio_of_best"]),
         _ratio(r["ratio_of_turns"]), f"{r['all_cpu_ms']:.0f}", _ratio(r["ratio_of_cpu"])]
        for name, r in _read("flower_rounds.json")["rounds"].items()
    ]  # fmt: skip
    return _table([*head, "CPU ms/round, all processes", "ratio"], rows)


def flower_conversions() -> str:
    """Return rounds on Flower with conversions in the step and beside it."""
    rows = []
    for name, r in _read("flower_rounds.json")["conversions"].items():
        times = [f"{r[f'one_round_ms_{key}']:.0f}" for key in ("median", "p90", "max")]
        step = [_digits(r["step_ms_median"], 2), f"{r['step_ms_max']:.0f}"]
        cells = [_ratio(r["ratio_of_turns"]), ", ".join(times), ", ".join(step)]
        rows.append([ON_FLOWER[name], *cells])
    head = ["", "ratio, median of turns", "round: median, p90, longest (ms)"]
    return _table([*head, "step: median, longest (ms)"], rows)


def longest_rounds() -> list[float]:
    """Return the seconds of the longest round: in the background, and in the step."""
    found = _read("flower_rounds.json")["conversions"]
    beside = [found[f"background {way}"]["one_round_ms_max"] for way in ("thread", "process")]
    return [max(beside) / 1e3, found["in the step"]["one_round_ms_max"] / 1e3]


def start(when: str, *commands: str) -> list[float]:
    """Return milliseconds of commands from the part of `startup.txt` that begins with `when`.

    Commands are named without dashes, which a marker must not have. One that begins with `×`
    stands for its multiple of importing click and rich.
    """
    text = (RESULTS / "startup.txt").read_text(encoding="utf-8").partition(f"\n{when}")[2]
    lines = _STARTED.finditer(text.partition("\n\n")[0])
    found = {line[1].replace("--", ""): (float(line[2]), float(line[3])) for line in lines}
    return [found[c.lstrip("×")][c.startswith("×")] for c in commands]


_STARTED = re.compile(r"^(.+?) +(\d+) ms +([\d.]+)$", re.MULTILINE)


def _ratio(value: float) -> str:
    return "1" if value == 1 else f"{value:.2f}"


def _digits(value: float, digits: int = 3) -> str:
    """Return a figure with so many digits, but never without its whole part."""
    whole = len(str(int(value)))
    leading = 0 if value >= 1 else len(re.match(r"0\.(0*)", f"{value:f}")[1])  # type: ignore[index]
    places = digits - whole if value >= 1 else digits + leading
    return f"{value:,.{max(places, 0)}f}"


def threads() -> str:
    """Return two threads beside one."""
    head = ["model", "work", "1 thread, best", "2 threads, best", "ratio of the best"]
    head += ["ratio of turns, median", "the same bits", "load meanwhile"]
    rows = []
    for row in _read("threads.json")["rows"]:
        seconds = [row["seconds"][n]["best"] for n in ("1", "2")]
        cells = [f"{_digits(1e3 * s)} ms" for s in seconds]
        cells += [_digits(row["ratio_of_best"]["2"], 2), _digits(row["ratio_of_turns"]["2"], 2)]
        load = row["load"]
        cells += ["yes" if row["same_bits"] else "no", f"{load['least']:.1f} to {load['most']:.1f}"]
        rows.append([row["model"], row["work"], *cells])
    return _table(head, rows)


def first_minutes() -> str:
    """Return what a newcomer waits for and gets."""
    head = ["commit", "packages", "installed, MB", "until installed, s", "until the table, s"]
    head += ["longest silence, s"]
    rows = [
        [row["commit"], str(row["packages"]), f"{row['installed_mb']:.0f}"]
        + [f"{row[key]:.0f}" for key in ("installed_s", "table_s", "longest_silence_s")]
        for row in reversed(_read("first_minutes.json")["rows"])
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))
