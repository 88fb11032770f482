"""Writes a run folder such as `unstale run` would, without training anything."""

import dataclasses
import json
import math
import random
from pathlib import Path

from unstale.run_folder import Lines, Round
from unstale.run_folder.schema import Converted, FellBack, Measured

METHODS = ("no_delay", "unweighted", "weighted", "first_order", "convert")
# Where each curve ends, when it starts to rise, and how unsteady it is.
SHAPES = {
    "no_delay": (0.97, 6, 0.008),
    "unweighted": (0.78, 52, 0.07),
    "weighted": (0.02, 60, 0.01),
    "first_order": (0.81, 50, 0.06),
    "convert": (0.955, 46, 0.015),
}
MORE = {f"variant-{i}": (0.9 - 0.06 * i, 45 + 3 * i, 0.01 + 0.005 * i) for i in range(12)}


def write_fake_run(
    folder: Path,
    *,
    methods: tuple[str, ...] = METHODS,
    seeds: tuple[int, ...] = (0, 1, 2),
    rounds: int = 100,
    clients: int = 30,
    classes: tuple[str, ...] = tuple("0123456789"),
    finished: bool = True,
    title: str = "Digits, one class per client, three slow clients",
    reached: dict[tuple[str, int], int] | None = None,
    oracle_error: bool = True,
    evaluate_every: int = 1,
) -> Path:
    """Write the folder; `reached` cuts (method, seed) pairs short, 0 leaves one out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "name": "quickstart",
        "title": title,
        "description": "Thirty clients hold one digit each. The three that hold the 5 are slow.",
        "rounds": rounds,
        "seeds": list(seeds),
        "data": {"name": "digits", "test_share": 0.2},
        "model": {"name": "mlp", "hidden": [64]},
        "local": {"lr": 0.1, "momentum": 0.5, "epochs": 5},
        "partition": {"kind": "one_class", "examples": 40},
        "latency": {"kind": "fixed", "slow": 40},
        "cohort": {"fast": 9, "slow": 1},
        "evaluate": {"every": evaluate_every, "target": 0.8},
        "methods": [{"name": m, "label": m} for m in methods],
    }
    _write(folder / "config.json", config)
    _write(
        folder / "environment.json",
        {
            "unstale": "0.1.0",
            "python": "3.11.7",
            "torch": "2.13.0",
            "device": "cpu",
            "commit": None,
            "command": "unstale run quickstart --seeds 0,1,2",
            "started": "2026-11-15T14:00:00Z",
        },
    )
    affected = min(5, len(classes) - 1)
    for seed in seeds:
        _write(
            folder / "scenario" / f"seed-{seed}.json", _scenario(seed, clients, classes, affected)
        )
    summary = {}
    for method in methods:
        per_seed = []
        for seed in seeds:
            last = (reached or {}).get((method, seed), rounds)
            lines = [
                _round(method, seed, t, rounds, len(classes), affected, oracle_error)
                for t in range(1, last + 1)
            ]
            lines = [line if line.number % evaluate_every == 0 else _bare(line) for line in lines]
            if last:
                file = Lines(folder / "rounds" / method / f"seed-{seed}.jsonl")
                file.cut(0)
                for line in lines:
                    file.append(line)
            per_seed.append(lines)
        summary[method] = _summary(per_seed, rounds)
    if "convert" in methods and finished:
        for seed in seeds:
            write_surrogates(folder, "convert", seed, (1, 8, 8))
    if finished:
        _write(
            folder / "summary.json",
            {
                "format": 2,
                "scenario": "quickstart",
                "seeds": list(seeds),
                "rounds": rounds,
                "target": 0.8,
                "window": 10,
                "reference": "unweighted" if "unweighted" in methods else None,
                "methods": _compared(summary),
            },
        )
        _write(
            folder / "timing.json",
            {"methods": {m: {"seconds": 34.2 if m == "convert" else 3.1} for m in methods}},
        )
    return folder


def _bare(line: Round) -> Round:
    """A round that was not evaluated."""
    return dataclasses.replace(
        line, accuracy=None, affected_accuracy=None, class_accuracy=None, loss=None
    )


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _scenario(seed: int, num_clients: int, classes: tuple[str, ...], affected: int) -> dict:
    rng = random.Random(f"scenario/{seed}")
    clients = []
    for i in range(num_clients):
        histogram = [0] * len(classes)
        histogram[i % len(classes)] = 36
        for _ in range(4):
            other = rng.randrange(len(classes))
            if other != affected:
                histogram[other] += 1
        slow = i % len(classes) == affected
        clients.append(
            {
                "id": f"client-{i:02d}",
                "examples": sum(histogram),
                "histogram": histogram,
                "latency": 40.0 if slow else 0.0,
                "slow": slow,
            }
        )
    return {
        "seed": seed,
        "classes": list(classes),
        "affected": [affected],
        "clients": clients,
        "test_counts": [36] * len(classes),
    }


def _round(
    method: str, seed: int, t: int, rounds: int, num_classes: int, affected: int, error: bool
) -> Round:
    rng = random.Random(f"{method}/{seed}/{t}")
    arriving = random.Random(f"arrivals/{seed}/{t}")
    top, start, noise = SHAPES.get(method) or MORE[method]
    start += 2 * seed
    hit = top / (1 + math.exp(-(t - start - 8) / 3.5)) if t >= min(start, 6) else 0.0
    hit = min(max(hit + rng.gauss(0, noise) * (hit > 0.05), 0.0), 1.0)
    others = [
        min(max(0.96 * (1 - math.exp(-t / 9)) + rng.gauss(0, 0.012), 0), 1)
        for _ in range(num_classes)
    ]
    others[affected] = hit
    late = method != "no_delay" and t > 40
    age = 40 - (arriving.random() < 0.2)
    stale = 1 if late else 0
    ages = {0: 9 + (method == "no_delay")} | ({age: 1} if late else {})
    converted = int(method == "convert" and stale and rng.random() < 0.9)
    client = f"client-{affected + num_classes * arriving.randrange(3):02d}"
    told = _told(client, seed, t, rounds) if method == "convert" and stale else {}
    switched = int(client in told.get("gamma", {}))
    if switched and told["gamma"][client] == 0:
        converted = 0
    notes = {
        "compensated": int(stale and method in ("first_order", "weighted")),
        "dropped": 0,
        "fallback": int(method == "convert" and stale and not converted and not switched),
        "kept": 0,
        "converted": converted,
    }
    if notes["fallback"] and t % 2:
        notes |= {"fallback": 0, "kept": 1}
    oracle = {}
    if error and stale and method in ("convert", "first_order"):
        before = 0.05 + 0.2 * math.exp(-(t - 40) / 20) + abs(rng.gauss(0, 0.01))
        oracle = {
            "stale_cosine": before,
            "compensated_cosine": before * (0.15 if method == "convert" else 0.9),
            "stale_l1": 4 * before,
            "compensated_l1": 4 * before * (0.3 if method == "convert" else 0.95),
        }
    reason = f"not trusted: the estimate is {t}.5 times as large as the update"
    return Round(
        t,
        method=method,
        seed=seed,
        version=t,
        accuracy=sum(others) / num_classes,
        affected_accuracy=hit,
        class_accuracy=tuple(others),
        loss=2.3 * math.exp(-t / 20),
        arrivals=sum(ages.values()),
        stale=stale,
        staleness=ages,
        changed=True,
        refused={"not_finite": 1} if method == "unweighted" and t % 37 == 0 else {},
        notes=notes,
        conversions=converted,
        iterations=25 * converted,
        converted=(told["converted"],) if converted else (),
        fell_back=(FellBack(client, reason),) if notes["fallback"] else (),
        gamma=told["gamma"] if switched else {},
        measured=(told["measured"],) if "measured" in told else (),
        history={"versions": min(t, 41), "bytes": 20000 * min(t, 41)},
        seconds=0.02,
        oracle=oracle,
    )


def _told(client: str, seed: int, t: int, rounds: int) -> dict:
    """What a line tells of a conversion: its fit, late truth, and the last client's switch."""
    rng = random.Random(f"told/{client}/{seed}/{t}")
    warm = t > 46
    loss = 0.02 + 0.01 * rng.random()
    last = 25 if warm else 150 - 10 * seed
    points = ()
    if not warm or t % 10 == 0:
        at = sorted({1 + round((last - 1) * (i / 11) ** 2) for i in range(12)})
        first = 2 * loss if warm else 1.0
        points = tuple((i, loss + (first - loss) * math.exp(-(i - 1) / 12)) for i in at)
    told: dict = {"converted": Converted(client, loss, last, warm, points, base_version=t - 40)}
    if t > 60:
        stale_error = 0.1 * rng.random() + 0.02
        better = 0.2 + (1.2 if t > 0.8 * rounds else 0) * rng.random()
        l1 = (3 * stale_error * better, 3 * stale_error)
        told["measured"] = Measured(client, l1[0] / 3, l1[1] / 3, t - 40, *l1)
    point = int(0.85 * rounds) + seed
    if int(client[-2:]) > 20 and t > point:
        told["gamma"] = {client: max(0.0, 1 - (t - point) / 8)}
    return told


def write_surrogates(folder: Path, label: str, seed: int, shape: tuple[int, ...]) -> Path:
    """Write surrogates of the slow clients, of inputs of a shape."""
    scenario = json.loads((folder / "scenario" / f"seed-{seed}.json").read_text())
    rng = random.Random(f"surrogates/{label}/{seed}")
    classes = len(scenario["classes"])
    clients = [
        {
            "client": client["id"],
            "shape": list(shape),
            "low": 0.0,
            "high": 1.0,
            "samples": 20,
            "x": [[round(rng.random(), 3) for _ in range(math.prod(shape))] for _ in range(8)],
            "labels": [
                [0.9 if c == scenario["affected"][0] else 0.1 / (classes - 1)
                 for c in range(classes)]
                for _ in range(8)
            ],
        }
        for client in [c for c in scenario["clients"] if c["slow"]][:6]
    ]  # fmt: skip
    path = folder / "surrogates" / label / f"seed-{seed}.json"
    _write(path, {"clients": clients, "of": len(clients)})
    return path


def _summary(per_seed: list[list[Round]], rounds: int) -> dict:
    def mean(values: list[float]) -> float:
        return sum(values) / len(values) if values else 0.0

    def std(values: list[float]) -> float | None:
        middle = mean(values)
        squares = sum((v - middle) ** 2 for v in values)
        return math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None

    rows = []
    for lines in per_seed:
        told = [line for line in lines if line.accuracy is not None]
        fifth = [line for line in told if line.number > rounds * 0.8]
        half = [line for line in told if line.number > rounds * 0.5]
        rows.append(
            {
                "accuracy": mean([line.accuracy for line in fifth]),
                "affected_accuracy": mean([line.affected_accuracy for line in fifth]),
                "affected_mean": mean([line.affected_accuracy for line in half]),
                "held_from": _held(told),
                "diverged": 0,
                "conversions": sum(line.conversions for line in lines),
                "iterations": sum(line.iterations for line in lines),
                "stand_ins": 0,
                "probe_fits": 0,
            }
        )
    whole = {}
    spread = {}
    for metric in rows[0]:
        found = [row[metric] for row in rows]
        missing = any(value is None for value in found)
        whole[metric] = None if missing else mean(found)
        spread[metric] = None if missing else std(found)
    times = [row["held_from"] for row in rows if row["held_from"] is not None]
    whole |= {"held_from": mean(times) if times else None, "held_seeds": len(times)}
    spread["held_from"] = std(times) if times else None
    return {**whole, "spread": spread, "per_seed": rows}


def _held(told: list[Round]) -> int | None:
    """The first round from which every mean of ten rounds is at the target, looked for naively."""

    def smoothed(at: int) -> float:
        near = [line.affected_accuracy for line in told if at - 10 < line.number <= at]
        return sum(near) / len(near)

    numbers = [line.number for line in told]
    held = [at for at in numbers if all(smoothed(late) >= 0.8 for late in numbers if late >= at)]
    return min(held, default=None)


def _compared(summary: dict) -> dict:
    """Add the rounds that methods save against `unweighted`, in seeds in which both hold it."""
    plain = summary.get("unweighted")
    for label, found in summary.items():
        shares, rounds = [], []
        for own, other in zip(found["per_seed"], plain["per_seed"] if plain else (), strict=False):
            if label != "unweighted" and own["held_from"] and other["held_from"]:
                rounds.append(other["held_from"] - own["held_from"])
                shares.append(rounds[-1] / other["held_from"])
        found["rounds_saved"] = sum(rounds) / len(rounds) if rounds else None
        found["share_saved"] = sum(shares) / len(shares) if shares else None
        found["saved_seeds"] = len(shares)
    return summary
