"""The run folder: everything that a run leaves behind, whichever engine made it.

```
config.json                        the resolved config, written first
environment.json                   versions, commit, hardware, command
weights.json                       the file of pretrained weights and what was taken, if any
own.json                           checksums of data and model of the user's own, if any
scenario/seed-0.json               who is slow and what everyone holds (simulator only)
rounds/<label>/seed-0.jsonl        one line per round
checkpoints/<label>/seed-0/        while running: the last two; then final.safetensors
surrogates/<label>/seed-0.json     some of what a converting method made, if that is wanted
sinks/<label>/seed-0.json          how much sinks have got, if there are some
tensorboard/ mlflow/ wandb/        what sinks of that name write, unless they write elsewhere
failures/<label>/seed-0.json       why a try of a tuning failed (in `tuning/` only)
tuning.json                        what tuning tried and chose, in a run with tuned settings
tuning/                            the run folder of the tries
summary.json                       the figures, when all is done
timing.json                        seconds, apart from the figures: they differ from run to run
report.html  plots/*.png           made from the above
```

A run that is kept with its results (`keep.py`) has compressed lines, `seed-0.jsonl.gz`.
"""

import json
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from unstale.errors import RunError
from unstale.files import write_json
from unstale.out_places import cannot_write, is_full, require_folder


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: FileLock | None = None

    @property
    def config_path(self) -> Path:
        """The resolved config."""
        return self.path / "config.json"

    @property
    def weights_path(self) -> Path:
        """What was loaded of pretrained weights; there if the model has some."""
        return self.path / "weights.json"

    @property
    def own_path(self) -> Path:
        """Checksums of data and model of the user's own; there if one of them is."""
        return self.path / "own.json"

    @property
    def summary_path(self) -> Path:
        """The summary; there once the run is done."""
        return self.path / "summary.json"

    def lines_path(self, label: str, seed: int) -> Path:
        """The records of one method with one seed."""
        return self.path / "rounds" / label / f"seed-{seed}.jsonl"

    def checkpoints_path(self, label: str, seed: int) -> Path:
        """The checkpoints of one method with one seed."""
        return self.path / "checkpoints" / label / f"seed-{seed}"

    def surrogates_path(self, label: str, seed: int) -> Path:
        """Some surrogates of one method with one seed; there for methods that make some."""
        return self.path / "surrogates" / label / f"seed-{seed}.json"

    def failure_path(self, label: str, seed: int) -> Path:
        """Why one method with one seed failed, where that is written down (in a tuning)."""
        return self.path / "failures" / label / f"seed-{seed}.json"

    def sinks_path(self, label: str, seed: int) -> Path:
        """How much sinks have got of one method with one seed; there if there are sinks."""
        return self.path / "sinks" / label / f"seed-{seed}.json"

    @property
    def tuning_path(self) -> Path:
        """The record of a tuning; there if settings of this run were tuned."""
        return self.path / "tuning.json"

    @property
    def tries(self) -> "RunFolder":
        """The run folder of a tuning's tries, within this one."""
        return RunFolder(self.path / "tuning")

    def scenario_path(self, seed: int) -> Path:
        """The description of a seed's scenario."""
        return self.path / "scenario" / f"seed-{seed}.json"

    @property
    def is_run(self) -> bool:
        """Whether a run has begun here."""
        return self.config_path.is_file()

    @property
    def is_done(self) -> bool:
        """Whether the run here has finished."""
        return self.summary_path.is_file()

    def lock(self) -> None:
        """Make sure that nobody else works here, in this process or another.

        The lock is the operating system's: it ends with the process, however that ends, and a
        file `.lock` that a dead process left does not block anybody. Locking again what this
        very object holds changes nothing.

        Raises:
            ConfigError: If the folder cannot be made or written.
            RunError: If somebody else works here.
        """
        if self._lock is not None:
            return
        require_folder(self.path, "out")
        # A run may be begun in one thread and ended in another.
        lock = FileLock(self.path / ".lock", timeout=0, thread_local=False)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise RunError(
                f"One process at a time should work in a run folder. Another one is at work in "
                f"{self.path}. Wait for it, or choose another folder (--out of `unstale run`)."
            ) from error
        except OSError as error:
            if is_full(error):
                raise
            raise cannot_write(self.path, "out", error) from error
        self._lock = lock

    def unlock(self) -> None:
        """Let others work here."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_json(self, path: Path) -> Any:
        """Read a JSON file of the folder."""
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{path} should be readable JSON. Found: {error}.") from error

    def write_scenario(self, seed: int, description: dict[str, Any]) -> None:
        """Write a seed's scenario."""
        write_json(self.scenario_path(seed), description)


def next_folder(parent: Path, name: str) -> RunFolder:
    """Return a folder for a new run: `<name>-001`, or the next number that is free."""
    numbers = [number for number, _ in _numbered(parent, name)]
    return RunFolder(parent / f"{name}-{max(numbers, default=0) + 1:03d}")


def latest_folder(parent: Path, name: str) -> RunFolder | None:
    """Return the newest run of that name, or None."""
    found = sorted(_numbered(parent, name))
    return RunFolder(found[-1][1]) if found else None


def _numbered(parent: Path, name: str) -> list[tuple[int, Path]]:
    prefix = f"{name}-"
    return [
        (int(path.name.removeprefix(prefix)), path)
        for path in parent.glob(f"{prefix}*")
        if path.is_dir() and path.name.removeprefix(prefix).isdecimal()
    ]
