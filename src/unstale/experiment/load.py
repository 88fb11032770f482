"""Loading experiments from TOML files, with overrides from the command line."""

import dataclasses
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.config import ExperimentConfig, parse
from unstale.experiment.importing import load_plugin
from unstale.experiment.method_config import parse_methods
from unstale.methods import METHODS

QUICKSTART = "quickstart"
# Experiments that come with the package.
PACKAGED = (QUICKSTART, "quickstart_paper")
# Tables with a `path`, which is relative to the experiment file.
_WITH_PATH = ("partition", "latency", "availability")


def load_experiment(
    source: str | Path = QUICKSTART,
    *,
    overrides: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
    plugins: Sequence[str | Path] = (),
) -> ExperimentConfig:
    """Load an experiment, apply overrides, and check it.

    Args:
        source: A TOML file, a folder with a `config.toml`, `quickstart` or
            `quickstart_paper`.
        overrides: Strings `key=value` with a dotted key (`local.lr=0.1`,
            `methods.weighted.a=1`). The value is read as TOML or, if it is not valid, as text.
        seeds: Replaces the seeds of the file.
        methods: The methods to run: labels of the file, or names of registered methods, which
            then run with their defaults. All of the file if not given.
        plugins: Python files that register methods, data sets or models; they are run first.

    Raises:
        ConfigError: If the file or an override is wrong.
    """
    for plugin in plugins:
        load_plugin(plugin)
    table, folder = _read(source)
    for override in overrides:
        _apply(table, override)
    if seeds is not None:
        table["seeds"] = list(seeds)
    for key in _WITH_PATH:
        part = table.get(key)
        if isinstance(part, dict) and isinstance(part.get("path"), str) and folder is not None:
            part["path"] = str((folder / part["path"]).resolve())
    _find_weights_beside(table.get("model"), folder)
    _find_key_beside(table.get("storage"), folder)
    if methods is not None:
        _choose_methods(table, methods)
    config = parse(table, None if folder is None else str(folder.resolve()))
    loaded = tuple(str(Path(plugin).expanduser().resolve()) for plugin in plugins)
    return dataclasses.replace(config, plugins=loaded)


def _choose_methods(table: dict[str, Any], methods: Sequence[str]) -> None:
    """Leave the methods of `--methods` in an experiment's table.

    This comes before the experiment is checked: methods that do not run need not fit it.
    """
    by_label = {method.label: method for method in parse_methods(table.get("methods"))}
    for label in methods:
        if label not in by_label and label not in METHODS:
            raise UnknownNameError("A method of --methods", label, {*by_label, *METHODS})
    # In the order of the file, whatever the order of `methods`; then those that it does not have.
    chosen = [method for label, method in by_label.items() if label in methods]
    more = [label for label in dict.fromkeys(methods) if label not in by_label]
    table["methods"] = [*chosen, *more]
    evaluate = table.get("evaluate")
    if isinstance(evaluate, dict) and evaluate.get("reference") not in methods:
        table["evaluate"] = {k: v for k, v in evaluate.items() if k != "reference"}


def tuning_beside(source: str | Path) -> Path | None:
    """Return the record of tuned settings that lies beside an experiment file, if one does.

    It is `tuning.json` beside a `config.toml`, and `NAME.tuning.json` beside a `NAME.toml`.
    """
    path = Path(source)
    if str(source) in PACKAGED and not path.exists():
        return None
    path = path / "config.toml" if path.is_dir() else path
    name = "tuning.json" if path.name == "config.toml" else f"{path.stem}.tuning.json"
    beside = path.with_name(name)
    return beside if beside.is_file() else None


def _read(source: str | Path) -> tuple[dict[str, Any], Path | None]:
    path = Path(source)
    if (name := str(source)) in PACKAGED and not path.exists():
        text = (resources.files("unstale.experiment") / f"{name}.toml").read_text("utf-8")
        return _parse_toml(text, name), None
    if path.is_dir():
        path = path / "config.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "An experiment should be a TOML file, a folder with a config.toml, or one of: "
            f"{', '.join(PACKAGED)}. Could not read {path}: {error}."
        ) from error
    table = _parse_toml(text, str(path))
    # Resolved, because "." has no name (`unstale run .`).
    fallback = path.resolve().parent.name if path.name == "config.toml" else path.stem
    table.setdefault("name", fallback)
    return table, path.parent


def _find_weights_beside(model: object, folder: Path | None) -> None:
    """Make the path of a weights file absolute if it lies beside the experiment file.

    Else it stays as it is: data roots are known when the experiment is run.
    """
    if isinstance(model, dict) and isinstance(model.get("weights"), str) and folder is not None:
        beside = folder / model["weights"]
        if beside.is_file():
            model["weights"] = str(beside.resolve())


def _find_key_beside(storage: object, folder: Path | None) -> None:
    """Make the path of a key's file, which is relative to the experiment file, absolute."""
    if isinstance(storage, dict) and isinstance(storage.get("key"), str) and folder is not None:
        kind, _, path = storage["key"].partition(":")
        if kind == "file" and path:
            storage["key"] = f"file:{(folder / path).resolve()}"


def _parse_toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} should be valid TOML. Found: {error}.") from error


def _apply(table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"An override should be key=value. Found {override!r}.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # such as --set data.name=mnist
    *path, last = key.split(".")
    here: Any = table
    for part in path:
        here = _descend(here, part, key)
    if isinstance(here, list):
        raise ConfigError(
            f"An override should set one value. Found '{key}', which is a whole list entry. "
            "Name one of its settings."
        )
    here[last] = value


def _descend(here: Any, part: str, key: str) -> Any:
    """Return the sub-table `part`, creating it if missing; of a list, by label, name or index."""
    if isinstance(here, list):
        # "name" is short for {name = "name"}.
        here[:] = [{"name": entry} if isinstance(entry, str) else entry for entry in here]
        tables = [entry for entry in here if isinstance(entry, dict)]
        # By label first: a method of that name but with a label of its own may come before.
        labelled = [entry for entry in tables if entry.get("label", entry.get("name")) == part]
        if found := labelled or [entry for entry in tables if entry.get("name") == part]:
            return found[0]
        if part.isdecimal() and int(part) < len(here) and isinstance(here[int(part)], dict):
            return here[int(part)]
        labels = [str(e.get("label") or e.get("name")) for e in here if isinstance(e, dict)]
        raise UnknownNameError(f"The method in '{key}'", part, labels)
    below = here.setdefault(part, {})
    if not isinstance(below, dict | list):
        raise ConfigError(f"`{part}` in '{key}' should be a table. Found {below!r}.")
    return below
