"""Writes the run folder of a server on Flower by its own log, without any Flower."""

import math
import random
from pathlib import Path

from unstale.flower.run_log import RunLog
from unstale.server.report import Report
from unstale.updates import Note

SLOW, FAST = "15839247129847120341", ("2918273645546372819", "887766554433221100", "77")


def report(t, *, staleness=(0, 0, 0), notes=(), changed=True):
    history = {"versions": min(t, 6), "bytes": 90_000 * min(t, 6), "on_disk": 0}
    return Report(t, staleness, tuple(notes), changed=changed, history=history, seconds=0.25)


def told_of(t, *, slow_every=5, affected=True, evaluate=True):
    """What the strategy tells of round t: one slow node, now and then a refusal."""
    rng = random.Random(t)
    comes = t > slow_every and t % slow_every == 1
    notes, staleness, late = [], (0,) * len(FAST), {}
    if comes:
        staleness, late = (*staleness, slow_every), {SLOW: slow_every}
        first = t < 2 * slow_every + 2
        detail = {
            "loss": 0.02 + 0.01 * rng.random(),
            "iterations": 150 if first else 25,
            "start": "cold" if first else "warm",
            "curve": [[i, 0.02 + math.exp(-i / 8)] for i in (1, 5, 10, 25)],
        }
        fails = t % (4 * slow_every) == 1
        notes = [
            Note(
                "fallback", SLOW, t - 1 - slow_every, {"reason": "not trusted: 3.1 times as large"}
            )
            if fails
            else Note("converted", SLOW, t - 1 - slow_every, detail)
        ]
    refused = (
        [(FAST[2], "not_finite", "`delta` should be finite. Found NaN.")] if t % 13 == 0 else []
    )
    accuracy = 0.95 * (1 - math.exp(-t / 8)) + 0.01 * rng.random()
    evaluation = {"accuracy": accuracy, "loss": 2.3 * math.exp(-t / 10), "macro-f1": accuracy - 0.1}
    if affected:
        hit = 0.9 / (1 + math.exp(-(t - 12) / 3))
        evaluation |= {"affected-accuracy": hit, "class-accuracy": [accuracy] * 4 + [hit]}
    return {
        "report": report(t, staleness=staleness, notes=notes),
        "round": t,
        "evaluation": evaluation if evaluate else {},
        "answered": [*FAST, *late],
        "late": late,
        "working": {SLOW: (t - 1) % slow_every},
        "refused": refused,
        "seconds": 4.5 + rng.random() + (1.5 if notes else 0),
    }


def write_logged_run(
    folder: Path,
    *,
    rounds: int = 40,
    reached: int | None = None,
    affected: bool = True,
    evaluate: bool = True,
    **options: object,
) -> Path:
    """Write the folder; `reached` leaves the run unfinished after that round."""
    config = {
        "rounds": rounds,
        "title": "Three fast sites and a slow one",
        "closing": {"fraction": 0.8, "deadline": 60.0},
        "evaluate": {"target": 0.8, "affected": [4]} if affected else {},
    }
    with RunLog(folder, method="convert", seed=0, config=config, **options) as log:
        log.begin()
        for t in range(1, (rounds if reached is None else reached) + 1):
            told = told_of(t, affected=affected, evaluate=evaluate)
            log.round(told.pop("report"), **told)
        if reached is None:
            log.finish({"unknown_replies": 2})
    return folder
