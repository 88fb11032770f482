"""Keeping a finished run: a copy that is small enough to be committed.

The copy has what a report needs: settings, environment, scenarios, the figures, the records of
a tuning and of pretrained weights, and the lines of all rounds, compressed. Checkpoints,
surrogates, plots, the page and the lines of a tuning's tries are left out.
It names no path of the machine, and its bytes depend on the run alone.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unstale.errors import RunError
from unstale.files import write_json, write_whole
from unstale.run_folder.folder import RunFolder
from unstale.run_folder.lines import COMPRESSED, Lines, compress
from unstale.run_folder.provenance import public_command, require_clean


def keep_run(folder: RunFolder, out: Path) -> Path:
    """Copy a finished run into a folder for results and return that folder.

    Args:
        folder: The run.
        out: The folder of the copy, new or empty.

    Raises:
        RunError: If the run is not finished, if `out` holds something, or if the run comes
            from a dirty or unknown commit and `out` is in this repository.
    """
    if not folder.is_done:
        raise RunError(
            f"Only a finished run should be kept. {folder.path} has no summary.json. "
            "Go on with it by `unstale run --resume`."
        )
    if out.exists() and any(out.iterdir()):
        raise RunError(
            f"A run should be kept in a new folder. {out} holds something already. "
            "Remove it, or choose another one."
        )
    environment = folder.read_json(folder.path / "environment.json")
    require_clean(out, environment)
    config = folder.read_json(folder.config_path)
    copied = [folder.summary_path, folder.path / "timing.json"]
    copied += sorted((folder.path / "scenario").glob("seed-*.json"))
    copied += [path for path in (folder.weights_path, folder.own_path) if path.is_file()]
    for path in copied:
        write_whole(out / path.relative_to(folder.path), path.read_bytes())
    if folder.tuning_path.is_file():
        record = folder.read_json(folder.tuning_path)
        write_json(out / folder.tuning_path.name, _public_record(record))
    for method in config["methods"]:
        for seed in config["seeds"]:
            lines = folder.lines_path(method["label"], seed)
            name = lines.relative_to(folder.path).as_posix() + COMPRESSED
            write_whole(out / name, compress(Lines(lines).read_bytes()))
    write_json(out / "environment.json", _public_environment(environment))
    # Last: a copy that was cut off is no run.
    write_json(out / "config.json", _without_paths(config))
    return out


def _public_environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return an environment whose command names no path of the machine."""
    command = public_command(shlex.split(environment.get("command") or ""))
    return {**environment, "command": command}


def _public_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a tuning, which has an environment and settings of its own."""
    found = {**record, "config": _without_paths(record.get("config"))}
    if record.get("environment"):
        found["environment"] = _public_environment(record["environment"])
    return found


def _without_paths(value: Any) -> Any:
    """Return settings with the names of files, such as a trace's, instead of absolute paths."""
    if isinstance(value, dict):
        return {key: _without_paths(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_paths(one) for one in value]
    if not isinstance(value, str):
        return value
    if value.startswith("file:"):  # where a key lies
        return f"file:{Path(value.removeprefix('file:')).name}"
    return Path(value).name if Path(value).is_absolute() else value
