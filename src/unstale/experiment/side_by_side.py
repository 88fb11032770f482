"""Methods and seeds of one experiment at once, in processes of their own.

They share nothing but the run folder, in which each has its own files, so the numbers are
those of one after the other. The parent holds the folder's lock, relays progress, and
takes its workers with it, however it ends.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch

from unstale import data
from unstale.errors import ConfigError, RunError, UnstaleError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.importing import load_plugin
from unstale.experiment.load_data import load_data
from unstale.experiment.one_part import run_part
from unstale.experiment.progress import Progress
from unstale.run_folder import Round, RunFolder
from unstale.sim import Scenario

# A method's label and a seed.
Part = tuple[str, int]
# A round that a worker tells of: label, seed, the line's JSON.
Told = tuple[str, int, dict[str, Any]]
# Not on Windows, where a worker that is just starting may say that Ctrl-C interrupted it.
_SIGNALS_CAN_WAIT = hasattr(signal, "pthread_sigmask")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a worker needs to know; the same for all parts of a run."""

    config: ExperimentConfig
    folder: Path
    device: str
    data_root: str | None
    threads: int
    checkpoint_seconds: float
    keep_failures: bool = False
    """As in `run_part`."""
    repeatable: tuple[bool, bool] = field(default_factory=lambda: _cudnn_choices())
    """How cuDNN chooses algorithms, as in this process: `deterministic` and `benchmark`."""


def _cudnn_choices() -> tuple[bool, bool]:
    return torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark


def run_side_by_side(
    setting: Setting, parts: Sequence[Part], jobs: int, progress: Progress
) -> None:
    """Run every part (a method's label and a seed), `jobs` of them at a time.

    Raises:
        KeyboardInterrupt: After all workers have saved what they can.
        RunError: If a worker was lost.
        UnstaleError: The first that a part raised; others then stop as if interrupted.
    """
    waiting = list(parts)
    workers: dict[Connection, SpawnProcess] = {}
    try:
        for _ in range(min(jobs, len(parts))):
            with _ctrl_c_later():
                here, process = _start(setting)
            workers[here] = process
            here.send(waiting.pop(0))
        at_work = set(workers)
        while at_work:
            for ready in wait_for(list(at_work)):
                if _hear(cast(Connection, ready), progress):
                    continue
                # Its part is done: the next one, or no more.
                worker = cast(Connection, ready)
                if waiting:
                    with _lost_worker_is_said():
                        worker.send(waiting.pop(0))
                else:
                    at_work.remove(worker)
    finally:
        # In the end they are idle. Else they save what can be saved, and stop.
        for process in workers.values():
            process.terminate()
        for process in workers.values():
            process.join()


def _start(setting: Setting) -> tuple[Connection, SpawnProcess]:
    # A GPU cannot be shared with a forked process, and threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    # A pipe for each: with a queue for all, one that dies while it holds the lock stops the others.
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(setting, there), daemon=True)
    process.start()
    there.close()  # so that the end of the worker is the end of the pipe
    return here, process


def _hear(worker: Connection, progress: Progress) -> bool:
    """Take one message of a worker; tell whether it goes on with its part."""
    with _lost_worker_is_said():
        told: Told | str = worker.recv()
    if not isinstance(told, str):
        label, seed, line = told
        progress.advance(label, seed, Round.from_json(line))
        return True
    kind, _, message = told.partition(" ")
    if kind == "done":
        return False
    raise ConfigError(message) if kind == "config" else RunError(message)


@contextmanager
def _lost_worker_is_said() -> Iterator[None]:
    """Raise a RunError where a worker does not answer any more."""
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise RunError(
            "A worker of this run should live until its part is done. One ended by itself: killed, "
            "or out of memory. What was done is kept; go on with --resume, with fewer --jobs if "
            "memory is short."
        ) from error


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Have Ctrl-C wait, also in a worker that is started meanwhile, which inherits this.

    It reaches all processes of a terminal, but the parent alone decides what it means.
    """
    if not _SIGNALS_CAN_WAIT:
        yield
        return
    resource_tracker.ensure_running()  # else started with the worker, and it ends the waiting
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in the worker


def _work(setting: Setting, parent: Connection) -> None:
    """Run parts until the parent wants no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _SIGNALS_CAN_WAIT:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see `_ctrl_c_later`
    busy = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        if busy:
            raise KeyboardInterrupt
        os._exit(0)

    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(setting.threads)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = setting.repeatable
    dataset: data.Dataset | None = None
    while True:
        try:
            part: Part = parent.recv()
            busy = True
            for plugin in setting.config.plugins:
                load_plugin(plugin)
            dataset = dataset or load_data(setting.config, setting.data_root)
            fault = _run_part(setting, dataset, part, parent)
            busy = False
            parent.send(fault or "done")
        except (KeyboardInterrupt, EOFError, ConnectionError):
            os._exit(0)  # nobody listens any more


def _end_with_parent() -> None:
    # A parent that was killed has let go of the folder's lock: the next run may begin.
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _run_part(setting: Setting, dataset: data.Dataset, part: Part, parent: Connection) -> str:
    """Run one part; return what went wrong, as text, since not every error can be sent."""
    label, seed = part
    config, folder = setting.config, RunFolder(setting.folder)
    method = next(m for m in config.methods if m.label == label)
    try:
        run_part(
            config,
            method,
            Scenario(config.scenario, dataset, seed),
            folder,
            device=torch.device(setting.device),
            progress=_Tell(parent),
            checkpoint_seconds=setting.checkpoint_seconds,
            data_root=setting.data_root,
            keep_failure=setting.keep_failures,
        )
    except (UnstaleError, OSError) as error:
        return f"{'config' if isinstance(error, ConfigError) else 'run'} {error}"
    return ""


@dataclass(frozen=True, slots=True)
class _Tell:
    """Progress that the parent shows."""

    parent: Connection

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """The parent has said so."""

    def advance(self, label: str, seed: int, line: Round) -> None:
        """Send a round's line."""
        self.parent.send((label, seed, line.to_json()))
