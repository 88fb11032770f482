"""Reads a run folder, and nothing else, into a `Run`.

An unfinished run is read as far as it went: methods, seeds and rounds may be
missing, and a last line that was cut off by a crash is left out. Damage anywhere
else is an error that names the file and the line, since a chart drawn over it
would be wrong without saying so.
"""

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unstale.errors import RunError
from unstale.report.missing import find_missing
from unstale.report.parse import parse_method, parse_scenario, parse_summary
from unstale.report.records import Method, Run, Scenario
from unstale.run_folder import Round, SurrogateSamples
from unstale.run_folder.lines import COMPRESSED, content_of
from unstale.run_folder.schema import VersionError
from unstale.run_folder.schema.checked import items, mapping, number
from unstale.run_folder.summary import FORMAT, reference_of
from unstale.run_folder.surrogates import parse_surrogates
from unstale.run_folder.time_to_target import WINDOW
from unstale.run_folder.tuning import read_tuning

_SEED_FILE = re.compile(r"seed-(\d+)\.json(?:l(?:\.gz)?)?")
# Format 1 had another measure of time.
_FORMATS = (1, FORMAT)
_log = logging.getLogger(__name__)


def read_run(run_dir: Path) -> Run:
    """Read the run folder `run_dir`.

    Args:
        run_dir: A folder that `unstale run` wrote, finished or not.

    Returns:
        Everything the report needs.

    Raises:
        RunError: If `run_dir` is no run folder, or one of its files is damaged.
    """
    config_file = run_dir / "config.json"
    if not config_file.is_file():
        found = "a folder without one" if run_dir.is_dir() else "no such folder"
        raise RunError(
            f"A run folder should hold a config.json. Found {found}: {run_dir}. "
            "Give the folder that `unstale run` printed."
        )
    config = _read_object(config_file)
    summary = _read_object(run_dir / "summary.json", missing_ok=True)
    if summary and summary.get("format") not in _FORMATS:
        raise RunError(
            f"{run_dir / 'summary.json'} should be of format {' or '.join(map(str, _FORMATS))}. "
            f"Found {summary.get('format')!r}. Use the version of Unstale that wrote it."
        )
    rounds = {
        folder.name: _read_seeds(folder)
        for folder in sorted((run_dir / "rounds").glob("*"))
        if folder.is_dir()
    }
    scenarios = _read_scenarios(run_dir / "scenario")
    timing = _read_object(run_dir / "timing.json", missing_ok=True)
    try:
        planned = int(number(config.get("rounds"), "rounds") or 0)
        listed = [parse_method(value).label for value in items(config.get("methods"), "methods")]
        seeds = [int(number(seed, "seeds") or 0) for seed in items(config.get("seeds"), "seeds")]
        any_round = any(lines for by_seed in rounds.values() for lines in by_seed.values())
        failed = _failed(run_dir / "failures")
        missing = find_missing(rounds, listed, seeds, planned, failed) if summary else ()
        return Run(
            config=config,
            environment=_read_object(run_dir / "environment.json", missing_ok=True),
            methods=_methods(config, rounds),
            seeds=_seeds(config, rounds),
            planned_rounds=planned,
            missing=missing,
            rounds=rounds,
            scenarios=scenarios,
            summary={
                label: parse_summary(value)
                for label, value in mapping(summary.get("methods"), "methods").items()
            }
            if summary and not (missing and any_round)
            else None,
            **_evaluated(config, summary),
            surrogates=_read_surrogates(run_dir / "surrogates"),
            tuning=read_tuning(run_dir / "tuning.json"),
            privacy=mapping(summary.get("privacy"), "privacy"),
            seconds={
                label: seconds
                for label, value in mapping(timing.get("methods"), "methods").items()
                if (seconds := number(mapping(value, label).get("seconds"), "seconds")) is not None
            },
        )
    except ValueError as error:
        raise RunError(f"A file of {run_dir} is damaged: {error}") from error


def _read_object(path: Path, *, missing_ok: bool = False) -> Mapping[str, Any]:
    try:
        return mapping(json.loads(path.read_bytes()), "The file")
    except FileNotFoundError:
        if missing_ok:
            return {}
        raise
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} should hold one JSON object. It is damaged: {error}") from error


def _read_seeds(folder: Path) -> dict[int, tuple[Round, ...]]:
    # A file that is there plainly and compressed comes last, and counts, as it is.
    paths = [*folder.glob(f"seed-*.jsonl{COMPRESSED}"), *folder.glob("seed-*.jsonl")]
    files = {int(match[1]): path for path in paths if (match := _SEED_FILE.fullmatch(path.name))}
    return {seed: _read_rounds(files[seed]) for seed in sorted(files)}


def _read_rounds(path: Path) -> tuple[Round, ...]:
    rounds: dict[int, Round] = {}
    lines = content_of(path).rstrip(b"\n").split(b"\n")
    for position, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError) as error:
            if position == len(lines):
                _log.warning("%s: line %d was cut off and is left out", path, position)
                break
            raise RunError(f"{path}, line {position} is damaged: {error}") from error
        try:
            record = Round.from_json(parsed)
        except VersionError as error:
            raise RunError(f"{path}, line {position} cannot be read. {error}") from error
        except ValueError as error:
            raise RunError(f"{path}, line {position} is damaged: {error}") from error
        # A crash between a line and its checkpoint makes a resumed run write the round
        # again: the same round, so it counts once.
        rounds[record.number] = record
    return tuple(rounds[at] for at in sorted(rounds))


def _read_scenarios(folder: Path) -> dict[int, Scenario]:
    scenarios = {}
    for path in folder.glob("seed-*.json"):
        try:
            scenario = parse_scenario(_read_object(path))
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}") from error
        scenarios[scenario.seed] = scenario
    return dict(sorted(scenarios.items()))


def _read_surrogates(folder: Path) -> dict[str, dict[int, tuple[SurrogateSamples, ...]]]:
    found: dict[str, dict[int, tuple[SurrogateSamples, ...]]] = {}
    for path in sorted(folder.glob("*/seed-*.json")):
        if not (match := _SEED_FILE.fullmatch(path.name)):
            continue
        try:
            found.setdefault(path.parent.name, {})[int(match[1])] = parse_surrogates(
                _read_object(path)
            )
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}") from error
    return {label: dict(sorted(by_seed.items())) for label, by_seed in found.items()}


def _failed(folder: Path) -> set[tuple[str, int]]:
    """Return the methods and seeds that wrote down why they failed."""
    return {
        (path.parent.name, int(match[1]))
        for path in folder.glob("*/seed-*.json")
        if (match := _SEED_FILE.fullmatch(path.name))
    }


def _methods(config: Mapping[str, Any], rounds: Mapping[str, object]) -> tuple[Method, ...]:
    listed = [parse_method(value) for value in items(config.get("methods"), "methods")]
    known = {method.label for method in listed}
    return (*listed, *(Method(label, label) for label in rounds if label not in known))


def _seeds(
    config: Mapping[str, Any], rounds: Mapping[str, Mapping[int, object]]
) -> tuple[int, ...]:
    listed = [int(number(seed, "seeds") or 0) for seed in items(config.get("seeds"), "seeds")]
    recorded = {seed for by_seed in rounds.values() for seed in by_seed}
    return (*listed, *sorted(recorded.difference(listed)))


def _evaluated(config: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target, the window and the reference, by the summary or else the config."""
    evaluate = mapping(config.get("evaluate"), "evaluate")
    told = {**evaluate, **{key: summary[key] for key in ("target", "window") if key in summary}}
    methods = [mapping(method, "A method") for method in items(config.get("methods"), "methods")]
    listed = [{"label": parse_method(m).label, "name": parse_method(m).name} for m in methods]
    return {
        "target": number(told.get("target"), "target"),
        "window": int(number(told.get("window"), "window") or WINDOW),
        "reference": reference_of({"evaluate": evaluate, "methods": listed}),
    }
