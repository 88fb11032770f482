"""Who is compared in `flower_rounds.py`: FedAvg and Unstale, set up alike on one grid."""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flower_nodes import CLASSES, LOCAL, TASKS, model_of
from flower_turns import Contestant
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

import unstale as us
from unstale.executors import Processes
from unstale.executors.background import Background
from unstale.flower import Cohort, LateGrid, Unstale
from unstale.flower.wrapped_grid import WrappedGrid

NODES, PER_ROUND, SLOW = 100, 10, 20


class CountedGrid(WrappedGrid):
    """A grid that knows how many messages have no reply yet."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid)
        self.out = 0

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Push, and count."""
        pushed = list(super().push_messages(messages))
        self.out += len(pushed)
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Pull, and count."""
        pulled = list(super().pull_messages(message_ids))
        self.out -= len(pulled)
        return pulled

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Do as the wrapped grid does, which waits for all replies."""
        return self._grid.send_and_receive(messages, timeout=timeout)


@dataclass
class Setting:
    """What all contestants of one table have in common."""

    grid: Grid
    late: Callable[[int], int]
    task: str
    block: int
    rounds: int
    place: Path

    def folder(self, name: str) -> Path:
        """Return where a contestant writes."""
        return self.place / name.replace(" ", "-")

    def fedavg(self) -> Contestant:
        """Flower's own strategy, which has nobody late to wait for here."""
        strategy = FedAvg(
            fraction_train=PER_ROUND / NODES, fraction_evaluate=0.0, min_available_nodes=NODES
        )
        start = partial(
            strategy.start,
            self.grid,
            ArrayRecord(model_of(self.task).state_dict()),
            num_rounds=self.rounds,
            train_config=ConfigRecord({"task": self.task}),
        )
        return Contestant("FedAvg", start, self.block)

    def unstale(
        self, name: str, method: str, background: Background | None = None, written: bool = True
    ) -> Contestant:
        """Unstale, with all that it writes down."""
        strategy = Unstale(
            model_of(self.task),
            us.ServerSettings(
                method=method,
                local=LOCAL,
                inputs=us.InputSpec(shape=TASKS[self.task][0], classes=CLASSES, low=0.0, high=1.0),
                background=background,
            ),
            cohort=Cohort(fraction_train=PER_ROUND / NODES, min_available_nodes=NODES),
            folder=self.folder(name) if written else None,
        )
        counted = CountedGrid(self.grid)
        grid = LateGrid(counted, delay=self.late)

        def settle() -> None:
            while counted.out:
                grid.poll()
                time.sleep(0.01)

        start = partial(
            strategy.start,
            grid,
            num_rounds=self.rounds,
            train_config=ConfigRecord({"task": self.task}),
        )
        wait = None if background is None else background.wait
        return Contestant(name, start, self.block, settle, wait)


def without_conversions(setting: Setting) -> list[Contestant]:
    """Return the contestants of the first table."""
    return [
        setting.fedavg(),
        setting.unstale("Unstale", "unweighted"),
        setting.unstale("Unstale, nothing written", "unweighted", written=False),
    ]


def with_conversions(setting: Setting, stack: ExitStack) -> list[Contestant]:
    """Return the contestants of the second table."""
    worker = stack.enter_context(Processes(1, threads=1))
    thread = stack.enter_context(Background())
    process = stack.enter_context(Background(worker))
    return [
        setting.unstale("no conversions", "unweighted"),
        setting.unstale("in the step", "convert"),
        setting.unstale("background thread", "convert", thread),
        setting.unstale("background process", "convert", process),
    ]


def partitions_of(grid: Grid) -> dict[int, int]:
    """Wait for all nodes and ask each for its partition."""
    while len(nodes := list(grid.get_node_ids())) < NODES:
        time.sleep(0.1)
    questions = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
    answers = grid.send_and_receive(questions)
    return {m.metadata.src_node_id: int(m.content["node"]["partition-id"]) for m in answers}


def lateness(partitions: dict[int, int]) -> Callable[[int], int]:
    """Return by how many rounds a node is late: 5 to 15 for every fifth one."""

    def late(node: int) -> int:
        partition = partitions[node]
        return 5 + partition // 5 % 11 if partition % (NODES // SLOW) == 0 else 0

    return late
