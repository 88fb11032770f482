"""Methods and seeds of one experiment at once, in processes of their own.

They share nothing but the run folder, in which each has its own files, so the numbers are
those of one after the other. The parent holds the folder's lock, relays progress, and
takes its workers with it, however it ends.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for_end
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from unstale import data
from unstale.errors import ConfigError, RunError, UnstaleError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_run import run_method
from unstale.experiment.prepare import prepare
from unstale.experiment.progress import Progress
from unstale.run_folder.folder import RunFolder
from unstale.sim import Scenario

# A round that a worker tells of: label, seed, record.
Told = tuple[str, int, dict[str, Any]]
# Seconds between looks at what workers have to tell.
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Setting:
    """What a worker needs to know; the same for all parts of a run."""

    config: ExperimentConfig
    folder: Path
    device: str
    data_root: str | None
    threads: int
    checkpoint_seconds: float
    repeatable: tuple[bool, bool] = field(default_factory=lambda: _cudnn_choices())
    """How cuDNN chooses algorithms, as in this process: `deterministic` and `benchmark`."""


def _cudnn_choices() -> tuple[bool, bool]:
    return torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark


def run_side_by_side(
    setting: Setting, parts: Sequence[tuple[str, int]], jobs: int, progress: Progress
) -> None:
    """Run every part (a method's label and a seed), `jobs` of them at a time.

    Raises:
        KeyboardInterrupt: After all workers have saved what they can.
        RunError: If a worker was lost.
        UnstaleError: The first that a part raised; others then stop as if interrupted.
    """
    # A GPU cannot be shared with a forked process, and threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    told = context.SimpleQueue()
    pool = ProcessPoolExecutor(jobs, context, _begin, (setting, told))
    waiting, running = list(parts), set[Future[str]]()
    try:
        while waiting or running:
            # No more than run at once: what is handed in ahead could not be called back.
            while waiting and len(running) < jobs:
                with _ctrl_c_ignored():
                    running.add(pool.submit(_run_part, *waiting.pop(0)))
            done, running = wait(running, _POLL, FIRST_COMPLETED)
            _relay(told, progress)
            for part in done:
                _raise_fault(part.result())
        _relay(told, progress)
    except BrokenProcessPool as error:
        _interrupt_all(pool)
        raise RunError(
            "A worker of this run should live until its part is done. One ended by itself: killed, "
            "or out of memory. What was done is kept; go on with --resume, with fewer --jobs if "
            "memory is short."
        ) from error
    except BaseException:
        _interrupt_all(pool)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Have workers that are started meanwhile ignore Ctrl-C from their first moment.

    It reaches all processes of a terminal, but the parent alone decides what it means.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only there can it be said
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _relay(told: "SimpleQueue[Told]", progress: Progress) -> None:
    """Pass on what workers have told so far."""
    while not told.empty():
        progress.advance(*told.get())


def _interrupt_all(pool: ProcessPoolExecutor) -> None:
    """Have whoever is at work save what can be saved, and stop."""
    for process in list((pool._processes or {}).values()):
        process.terminate()


def _raise_fault(fault: str) -> None:
    """Raise what a part has returned as text, if anything."""
    kind, _, message = fault.partition(" ")
    if fault:
        raise ConfigError(message) if kind == "config" else RunError(message)


# ---- in the worker


class _Worker:
    """The state of this process."""

    setting: Setting
    told: "SimpleQueue[Told]"
    busy = False
    dataset: data.Dataset | None = None


class _Tell:
    """Progress that the parent shows."""

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """The parent has said so."""

    def advance(self, label: str, seed: int, record: Mapping[str, Any]) -> None:
        """Tell of a round, without what is of no interest while it runs."""
        kept = ("round", "stale", "refused", "accuracy", "affected_accuracy")
        _Worker.told.put((label, seed, {key: record.get(key) for key in kept}))


def _begin(setting: Setting, told: "SimpleQueue[Told]") -> None:
    _Worker.setting, _Worker.told = setting, told
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as `_ctrl_c_ignored`, where that could not be
    signal.signal(signal.SIGTERM, _interrupt)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    torch.set_num_threads(setting.threads)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = setting.repeatable


def _interrupt(number: int, frame: FrameType | None) -> None:
    # By an exception in both cases: the lock of the queue that an idle worker waits at has to be
    # let go of, or the others wait for ever.
    raise KeyboardInterrupt if _Worker.busy else SystemExit(0)


def _end_with(sentinel: int) -> None:
    # A parent that was killed has let go of the folder's lock: the next run may begin.
    wait_for_end([sentinel])
    os._exit(1)


def _run_part(label: str, seed: int) -> str:
    """Run one part; return what went wrong, as text, since not every error can be sent."""
    setting = _Worker.setting
    config = setting.config
    method = next(m for m in config.methods if m.label == label)
    _Worker.busy = True
    try:
        if _Worker.dataset is None:
            _Worker.dataset = data.load(config.data, setting.data_root)
        scenario = Scenario(config.scenario, _Worker.dataset, seed)
        simulation = prepare(config, method, scenario, torch.device(setting.device))
        folder = RunFolder(setting.folder)
        run_method(config, method, seed, simulation, folder, _Tell(), setting.checkpoint_seconds)
    except KeyboardInterrupt:
        return "run It was interrupted."  # nobody listens any more
    except UnstaleError as error:
        return f"{'config' if isinstance(error, ConfigError) else 'run'} {error}"
    finally:
        _Worker.busy = False
    return ""
