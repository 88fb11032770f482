"""A small strategy, its runs in one line, and the events that they leave."""

import json

from pretend_clients import small_model
from pretend_grid import BIG

from unstale.flower import Unstale

NODES = (3, 4, BIG + 5)


def events_of(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def of_kind(folder, kind):
    return [event for event in events_of(folder) if event["event"] == kind]


def strategy(tmp_path=None, server="unweighted", **options):
    folder = None if tmp_path is None else tmp_path / "run"
    return Unstale(small_model(), server, folder=folder, **options)


def start(it, grid, rounds=3, **options):
    return it.start(grid, num_rounds=rounds, **options)
