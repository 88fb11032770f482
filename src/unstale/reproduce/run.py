"""Running an item: every run and script of it that is not done, in a folder for all of them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from unstale.data import Derived
from unstale.data.registry import find_source
from unstale.data.roots import locate
from unstale.errors import ConfigError, RunError, UnknownNameError
from unstale.experiment import ExperimentConfig, Progress, run_experiment
from unstale.reproduce.generated import registered
from unstale.reproduce.items import Item, PlannedRun, Script
from unstale.reproduce.plan import config_of, planned_rounds
from unstale.reproduce.smoke import SEED
from unstale.run_folder import RunFolder
from unstale.run_folder.differences import differences

UNFINISHED = "unfinished"
"""The folder, inside an item's, of result files whose script has not ended."""


@dataclass(frozen=True, slots=True)
class Options:
    """Where and how an item is run."""

    out: Path
    """The folder of the runs of all items: a run is in OUT/ITEM/RUN."""
    smoke: bool = False
    """Whether to run it small, on generated data."""
    seeds: tuple[int, ...] | None = None
    """Instead of the seeds of the files."""
    device: str = "cpu"
    """The torch device."""
    data_root: str | None = None
    """The folder of data sets."""
    jobs: int = 1
    """Methods and seeds at once; a smoke run has one."""
    only: tuple[str, ...] = ()
    """Only these runs and scripts, by name; all if empty."""
    command: str = ""
    """The command that started it, for the record."""

    @property
    def script_seeds(self) -> tuple[int, ...] | None:
        """The seeds of scripts; None for their own."""
        return (SEED,) if self.smoke and self.seeds is None else self.seeds


class ItemProgress(Progress, Protocol):
    """Who wants to know how far an item is."""

    def plan(self, parts: Sequence[str], rounds: dict[str, int]) -> None:
        """The item has these parts, and takes so many rounds of each method in all."""

    def part(self, name: str, *, done: bool) -> None:
        """A part begins, or is done already."""


def place_in(out: Path, part: PlannedRun | Script) -> Path:
    """Return where a run is in the folder of all items, or the folder of a script's files."""
    return out / part.item / part.name if isinstance(part, PlannedRun) else out / part.item


def run_item(item: Item, options: Options, progress: ItemProgress) -> None:
    """Run everything of an item that is not done; what was begun goes on where it stopped.

    Raises:
        UnstaleError: If a setting, the data or a folder is wrong.
        DataError: If the data of one of the runs is missing.
        RunError: If a script fails.
    """
    names = [one.name for one in item.parts]
    for name in options.only:
        if name not in names:
            raise UnknownNameError(f"A run of '{item.name}'", name, names)
    parts = [one for one in item.parts if not options.only or one.name in options.only]
    with registered() if options.smoke else nullcontext():
        configs = {
            run.name: config_of(run, smoke=options.smoke, seeds=options.seeds)
            for run in parts
            if isinstance(run, PlannedRun)
        }
        _find_data(parts, configs, options)
        tuned = [one.name for one in parts if isinstance(one, PlannedRun) and one.tune]
        # That tuning works is seen in one run; the tries of the others would take seconds.
        tuned = tuned[:1] if options.smoke else tuned
        progress.plan([one.name for one in parts], _rounds(parts, configs, options, tuned))
        for part in parts:
            if isinstance(part, PlannedRun):
                _run(part, configs[part.name], options, progress, tune=part.name in tuned)
            else:
                _script(part, options, progress)


def _find_data(
    parts: Sequence[PlannedRun | Script], configs: dict[str, ExperimentConfig], options: Options
) -> None:
    """Raise DataError if data of any run is missing, before hours are spent on the others."""
    for part in parts:
        if isinstance(part, PlannedRun) and not RunFolder(place_in(options.out, part)).is_done:
            config = configs[part.name]
            _find(config.data, options.data_root)
            if look := getattr(config.scenario.drift, "to", None):
                _find(look, options.data_root)


def _find(name: str, root: str | None) -> None:
    source = find_source(name)
    if isinstance(source, Derived):
        for other in source.of:
            _find(other, root)
    else:
        locate(name, source, root)


def _rounds(
    parts: Sequence[PlannedRun | Script],
    configs: dict[str, ExperimentConfig],
    options: Options,
    tuned: Sequence[str],
) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        if isinstance(part, PlannedRun):
            folder = RunFolder(place_in(options.out, part))
            if folder.is_done:
                continue
            rounds = planned_rounds(configs[part.name], folder, tune=part.name in tuned)
            for label, number in rounds.items():
                found[label] = found.get(label, 0) + number
    return found


def _run(
    run: PlannedRun,
    config: ExperimentConfig,
    options: Options,
    progress: ItemProgress,
    *,
    tune: bool,
) -> None:
    folder = RunFolder(place_in(options.out, run))
    if folder.is_done:
        if differing := differences(folder.read_json(folder.config_path), config.to_json()):
            raise RunError(
                f"{folder.path} should hold this run. It holds one that differs in: "
                f"{', '.join(differing)}. Use the same settings, or choose another --out."
            )
        progress.part(run.name, done=True)
        return
    progress.part(run.name, done=False)
    run_experiment(
        config,
        folder,
        device=options.device,
        data_root=options.data_root,
        progress=progress,
        command=options.command,
        jobs=1 if options.smoke else options.jobs,  # other processes do not know generated data
        tune=tune,
    )


def _script(script: Script, options: Options, progress: ItemProgress) -> None:
    if options.smoke and options.device != "cpu":
        raise ConfigError("A smoke run of a script should be on the CPU. Leave out --device.")
    seeds = options.script_seeds
    folder = place_in(options.out, script)
    # A study may write what it has as it goes: its file counts only once the script has ended.
    unfinished = folder / UNFINISHED
    unfinished.mkdir(parents=True, exist_ok=True)
    for name, own in script.files(seeds).items():
        out = (folder / name).resolve()
        progress.part(f"{script.name}, {name}", done=out.is_file())
        if out.is_file():
            continue
        command = [sys.executable, script.path.name]
        command += script.smoke if options.smoke else script.arguments
        command += ["--seeds", ",".join(map(str, own)), "--device", options.device]
        if options.data_root and not options.smoke:
            command += ["--data", str(Path(options.data_root).resolve())]
        written = unfinished.resolve() / name
        done = subprocess.run(
            [*command, "--out", str(written)],
            cwd=script.path.parent,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _paths()))},
            stdout=sys.stderr.fileno() if _has_file(sys.stderr) else subprocess.DEVNULL,
            check=False,
        )
        if done.returncode or not written.is_file():
            raise RunError(
                f"{script.path.name} should write {written}. It ended with exit code "
                f"{done.returncode}; its messages are above. Run the same command to go on."
            )
        if (picture := written.with_suffix(".png")).is_file():
            picture.replace(out.with_suffix(".png"))
        written.replace(out)  # last: where the result is, all of it is
    if not any(unfinished.iterdir()):
        unfinished.rmdir()


def _paths() -> list[str]:
    """Return where the script finds this very package, whether it is installed or not."""
    return [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]


def _has_file(stream: object) -> bool:
    try:
        stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
    return True
