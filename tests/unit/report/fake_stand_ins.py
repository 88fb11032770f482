"""Adds stand-ins to a run folder that `fake_run` wrote."""

import dataclasses
import json
import random
from pathlib import Path

from unstale.run_folder import Lines, Round
from unstale.run_folder.schema import Checked, StoodIn

FIRST = 42
"""The first round of stand-ins."""


def add_stand_ins(
    folder: Path,
    *,
    methods: tuple[str, ...] = ("convert",),
    clients: tuple[str, ...] = ("client-05", "client-15", "client-25"),
    oracle: bool = True,
    at_once: int = 2,
) -> Path:
    """Let methods stand in for clients in every round from `FIRST` on; returns the folder.

    In each round `at_once` of the clients are absent, one after the other. Every tenth
    round one of them is checked. Each answers once in 40 rounds.
    """
    for method in methods:
        for path in sorted((folder / "rounds" / method).glob("seed-*.jsonl")):
            file = Lines(path)
            lines = [_stood_in(line, clients, oracle, at_once) for line in file.read()]
            file.cut(0)
            for line in lines:
                file.append(line)
    path = folder / "summary.json"
    if path.is_file():
        summary = json.loads(path.read_text())
        for method in methods:
            summary["methods"][method] |= {"stand_ins": 7.5, "stand_in_age": 60.0}
        path.write_text(json.dumps(summary))
    return folder


def _stood_in(line: Round, clients: tuple[str, ...], oracle: bool, at_once: int) -> Round:
    if line.number < FIRST:
        return dataclasses.replace(line, absent=1)
    rng = random.Random(f"stand-ins/{line.method}/{line.seed}/{line.number}")
    whom = [clients[(line.number + i) % len(clients)] for i in range(at_once)]
    made = tuple(
        StoodIn(client, 41 + (line.number - FIRST + 7 * i) % 40, round(1 - 0.1 * i, 3))
        for i, client in enumerate(whom)
    )
    found, true = 0.02 + 0.02 * rng.random(), 0.01 + 0.05 * rng.random()
    checked = (Checked(whom[0], 40, found, 0.97, l1=5 * found),)
    truth = {"stand_in_cosine": true, "stand_in_l1": 5 * true} if oracle else {}
    return dataclasses.replace(
        line,
        absent=at_once + 1,
        stand_ins=made,
        checked=checked if line.number % 10 == 0 else (),
        notes={**line.notes, "stood_in": len(made), "checked": int(line.number % 10 == 0)},
        oracle={**line.oracle, **truth},
    )
