"""Seconds per round on Flower: Unstale beside FedAvg, and with conversions beside without.

Flower's simulation, 100 nodes, 10 a round, 20 of them slow (their replies are held back 5
to 15 rounds). All contestants work on one grid in one ServerApp and take turns, a block of
rounds each, and the best block counts, because machines are shared. A block ends when all
work that was handed out in it is done, so nobody's work falls into another one's time.

    python benchmarks/flower_rounds.py [--blocks 5] [--block 8] [--json FILE]

Everything stays on this machine: Flower and Ray run offline in a home folder of their own.
"""

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.nn import functional as F

import unstale as us
from unstale import models
from unstale.background import Background
from unstale.executors import Processes
from unstale.flower import LateGrid, Unstale
from unstale.flower.wrapped_grid import WrappedGrid

NODES, PER_ROUND, SLOW, CLASSES = 100, 10, 20, 10
LOCAL = us.LocalSpec(lr=0.05, momentum=0.5, epochs=5)
# What nodes train: name of the model, shape of an input, samples of a node.
TASKS = {"lenet": ((1, 28, 28), 40), "mlp": ((64,), 10)}


# ---- nodes ---------------------------------------------------------------------------


def samples(task: str, partition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a node's samples: noise around the mean of its one class. Speed is all we look at."""
    shape, many = TASKS[task]
    label = partition % CLASSES
    mean = torch.rand(shape, generator=torch.Generator().manual_seed(label))
    noise = torch.rand(many, *shape, generator=torch.Generator().manual_seed(100 + partition))
    return 0.7 * mean + 0.3 * noise, torch.full((many,), label)


def model_of(task: str) -> torch.nn.Module:
    """Return a model with weights that depend on nothing but its name."""
    if task == "lenet":
        return models.build("lenet", TASKS[task][0], CLASSES, seed=0)
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, CLASSES)
    )


client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Five full-batch steps."""
    task = str(message.content["config"]["task"])
    model = model_of(task)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = samples(task, int(context.node_config["partition-id"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=LOCAL.lr, momentum=LOCAL.momentum)
    for _ in range(LOCAL.epochs):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@client_app.query()
def query(message: Message, context: Context) -> Message:
    """Say which partition this is."""
    partition = ConfigRecord({"partition-id": int(context.node_config["partition-id"])})
    return Message(content=RecordDict({"node": partition}), reply_to=message)


# ---- taking turns --------------------------------------------------------------------


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


# ---- the contestants -----------------------------------------------------------------


def partitions_of(grid: Grid) -> dict[int, int]:
    """Wait for all nodes and ask each for its partition."""
    while len(nodes := list(grid.get_node_ids())) < NODES:
        time.sleep(0.1)
    questions = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
    answers = grid.send_and_receive(questions)
    return {m.metadata.src_node_id: int(m.content["node"]["partition-id"]) for m in answers}


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
            method,
            local=LOCAL,
            inputs=us.InputSpec(shape=TASKS[self.task][0], classes=CLASSES, low=0.0, high=1.0),
            background=background,
            folder=self.folder(name) if written else None,
            fraction_train=PER_ROUND / NODES,
            min_available_nodes=NODES,
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


def lateness(partitions: dict[int, int]) -> Callable[[int], int]:
    """Return by how many rounds a node is late: 5 to 15 for every fifth one."""

    def late(node: int) -> int:
        partition = partitions[node]
        return 5 + partition // 5 % 11 if partition % (NODES // SLOW) == 0 else 0

    return late


def from_the_log(folder: Path, block: int) -> dict[str, float]:
    """Return what the run log says of single rounds and of the server's step, in ms.

    Without the block that warms up, nor the last round of a block, which waits for its turn.
    """
    (path,) = folder.rglob("rounds/*/seed-*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()][block:]
    steps = [1e3 * line["step_seconds"] for line in lines]
    rounds = sorted(1e3 * line["seconds"] for line in lines if line["round"] % block)
    return {
        "one_round_ms_median": statistics.median(rounds),
        "one_round_ms_p90": rounds[int(0.9 * len(rounds))],
        "one_round_ms_max": rounds[-1],
        "step_ms_median": statistics.median(steps),
        "step_ms_max": max(steps),
        "stale_per_round": statistics.fmean(line["stale"] for line in lines),
        "conversions_per_round": statistics.fmean(line["conversions"] for line in lines),
        "held_max": max(line.get("held", 0) for line in lines),
    }


def summary(contestant: Contestant, folder: Path, block: int) -> dict[str, Any]:
    """Return the best block and the median one, the first left out."""
    blocks = contestant.blocks[1:]
    found = {key: min(b[key] for b in blocks) for key in blocks[0] if key != "afterwards_s"}
    found["median_round_ms"] = statistics.median(b["round_ms"] for b in blocks)
    found["afterwards_s"] = max(b["afterwards_s"] for b in blocks)
    if folder.exists():
        found |= from_the_log(folder, block)
    return found | {"blocks": blocks}


def measure(grid: Grid, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the tables that were asked for."""
    late = lateness(partitions_of(grid))
    rounds = chosen.block * (chosen.blocks + 1)
    found: dict[str, Any] = {}
    for part in chosen.parts.split(","):
        task = "mlp" if part == "conversions" else "lenet"
        with ExitStack() as stack, tempfile.TemporaryDirectory() as place:
            setting = Setting(grid, late, task, chosen.block, rounds, Path(place))
            contestants = (
                with_conversions(setting, stack)
                if part == "conversions"
                else [
                    setting.fedavg(),
                    setting.unstale("Unstale", "unweighted"),
                    setting.unstale("Unstale, nothing written", "unweighted", written=False),
                ]
            )
            take_turns(contestants, chosen.blocks)
            found[part] = {
                c.name: summary(c, setting.folder(c.name), chosen.block) for c in contestants
            }
    return found


def with_conversions(setting: Setting, stack: ExitStack) -> list[Contestant]:
    """Return the contestants of the second table."""
    worker = stack.enter_context(Processes(1, threads=1))
    thread = stack.enter_context(Background())
    process = stack.enter_context(Background(worker))
    return [
        setting.unstale("no conversions", "unweighted"),
        setting.unstale("in the step", "invert"),
        setting.unstale("background thread", "invert", thread),
        setting.unstale("background process", "invert", process),
    ]


# ---- the run -------------------------------------------------------------------------


def run_quietly(arguments: list[str]) -> int:
    """Run this script again where Flower and Ray find nothing to call home about."""
    with tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as place:
        home = Path(place, "home")
        home.mkdir()
        # Without this file Ray asks a cloud's metadata address where it is.
        (home / "ray_bootstrap_config.yaml").write_text("{}\n")
        environment = {
            **os.environ,
            "HOME": str(home),
            "FLWR_HOME": str(home / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Else Ray looks up the route to 8.8.8.8 for an address of its own.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_TMPDIR": place,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, __file__, "--inside", *arguments]
        return subprocess.run(command, env=environment).returncode


def add_ratios(rows: dict[str, dict[str, Any]]) -> None:
    """Add how long rounds take beside those of the first row: the best, and turn by turn."""
    first = next(iter(rows.values()))
    for row in rows.values():
        turns = zip(row["blocks"], first["blocks"], strict=True)
        row["ratio_of_best"] = row["round_ms"] / first["round_ms"]
        row["ratio_of_turns"] = statistics.median(a["round_ms"] / b["round_ms"] for a, b in turns)
        row["ratio_of_cpu"] = row["all_cpu_ms"] / max(first["all_cpu_ms"], 1e-9)


def show(part: str, rows: dict[str, dict[str, Any]]) -> None:
    """Print a table."""
    print(
        f"\n{part:<26}{'ms/round':>9}{'ratio':>7}{'by turns':>9}{'server CPU':>11}{'all CPU':>9}"
        f"{'ratio':>7}{'round p90':>11}{'longest':>9}{'step ms':>9}{'longest':>9}"
        f"{'stale':>7}{'conv.':>7}{'held':>5}{'left s':>8}"
    )
    for name, row in rows.items():
        print(
            f"{name:<26}{row['round_ms']:>9.0f}{row['ratio_of_best']:>7.2f}"
            f"{row['ratio_of_turns']:>9.2f}{row['server_cpu_ms']:>11.0f}{row['all_cpu_ms']:>9.0f}"
            f"{row['ratio_of_cpu']:>7.2f}"
            f"{row.get('one_round_ms_p90', 0):>11.0f}{row.get('one_round_ms_max', 0):>9.0f}"
            f"{row.get('step_ms_median', 0):>9.1f}{row.get('step_ms_max', 0):>9.0f}"
            f"{row.get('stale_per_round', 0):>7.2f}{row.get('conversions_per_round', 0):>7.2f}"
            f"{row.get('held_max', 0):>5.0f}{row['afterwards_s']:>8.1f}"
        )


def main() -> None:
    """Print the tables, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--blocks", type=int, default=5, help="blocks of each, one to warm up apart"
    )
    parser.add_argument("--block", type=int, default=8, help="rounds of a block")
    parser.add_argument("--parts", default="rounds,conversions")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if not chosen.inside:
        sys.exit(run_quietly(sys.argv[1:]))
    server_app, found = ServerApp(), {}

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        found.update(measure(grid, chosen))

    # Two actors on two cores, as `flwr run` does with one core for each client.
    run_simulation(
        server_app,
        client_app,
        num_supernodes=NODES,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0},
            "init_args": {"_node_ip_address": "127.0.0.1"},
        },
    )
    if not found:
        sys.exit("The simulation failed; see above.")
    for part, rows in found.items():
        add_ratios(rows)
        show(part, rows)
    if chosen.json:
        setting = {
            "nodes": NODES,
            "per_round": PER_ROUND,
            "slow": SLOW,
            "cores": os.cpu_count(),
            "blocks": chosen.blocks,
            "rounds_per_block": chosen.block,
            **{name: importlib.metadata.version(name) for name in ("flwr", "ray", "torch")},
        }
        chosen.json.write_text(json.dumps({"setting": setting, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
