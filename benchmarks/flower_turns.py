"""Strategies that take turns, a block of rounds each, and the clocks that they are measured by."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, MetricRecord


class Contestant(threading.Thread):
    """One strategy that runs while it is its turn."""

    def __init__(self, name: str, start: Callable[..., Any], block: int, settle=None, wait=None):
        super().__init__(name=name, daemon=True)
        self._begin = start
        self._block = block
        self._settle = settle or (lambda: None)  # in its own time: end what was handed out
        self._wait = wait or (lambda: None)  # after its time: end what goes on beside
        self.go, self.done = threading.Event(), threading.Event()
        self.blocks: list[dict[str, float]] = []
        self.error: BaseException | None = None
        self._at: tuple[float, float, float] | None = None

    def run(self) -> None:
        """Run all rounds, a block whenever it is told to."""
        try:
            self._begin(evaluate_fn=self.between_rounds)
        except BaseException as error:
            self.error = error
        self.done.set()

    def between_rounds(self, round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Give the turn away after a block."""
        if round % self._block:
            return None
        if self._at is not None:
            self._settle()
            wall, here, all_ = (now - then for now, then in zip(clocks(), self._at, strict=True))
            began = time.perf_counter()
            self._wait()
            self.blocks.append(
                {
                    "round_ms": wall / self._block * 1e3,
                    "server_cpu_ms": here / self._block * 1e3,
                    "all_cpu_ms": all_ / self._block * 1e3,
                    "afterwards_s": time.perf_counter() - began,
                }
            )
        self.done.set()
        self.go.wait()
        self.go.clear()
        self._at = clocks()
        return None

    def turn(self) -> None:
        """Let it run one block."""
        self.done.clear()
        self.go.set()
        self.done.wait()
        if self.error is not None:
            raise self.error


def clocks() -> tuple[float, float, float]:
    """Return wall seconds, CPU seconds of this process, and of all processes it has started."""
    return time.perf_counter(), time.process_time(), cpu_of_family()


def cpu_of_family() -> float:
    """Return the CPU seconds of this process and its descendants that live; 0 without /proc."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(path.parent.name)
        parents[pid], used[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    total, family = 0, [os.getpid()]
    while family:
        pid = family.pop()
        total += used.get(pid, 0)
        family += [child for child, parent in parents.items() if parent == pid]
    return total / os.sysconf("SC_CLK_TCK")


def take_turns(contestants: list[Contestant], blocks: int) -> None:
    """Let everybody run a block to warm up, then `blocks` more each, by turns."""
    for contestant in contestants:
        contestant.start()
        contestant.done.wait()  # it stands before its first round
    for _ in range(blocks + 1):
        for contestant in contestants:
            contestant.turn()
