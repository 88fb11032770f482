"""An experiment from the arguments of a Python call: the same table as a file's, and one parser."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from unstale import data as data_sets
from unstale.data import Dataset, as_dataset, with_clients
from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.config import ExperimentConfig, parse
from unstale.experiment.method_config import MethodConfig
from unstale.experiment.own import own_dataset
from unstale.experiment.own_tables import parse_data
from unstale.experiment.scenario_tables import KINDS
from unstale.methods import METHODS, Method, as_method
from unstale.sim.partition import ByFile, Partition


def config_from_python(
    model: Any,
    data: Any,
    *,
    clients: Any,
    slow: Any,
    methods: Any,
    rounds: int,
    seeds: Iterable[int],
    local: Any,
    name: str,
    data_root: str | None = None,
    **settings: Any,
) -> ExperimentConfig:
    """Return the experiment of a call of `simulate`, checked as a file is.

    Args:
        model: A name, a table as `[model]`, a module, or a function that makes one.
        data: A name, a table as `[data]`, or any form that `as_dataset` takes.
        clients: See `simulate`.
        slow: See `simulate`.
        methods: See `simulate`.
        rounds: Number of rounds.
        seeds: The seeds.
        local: A `LocalSpec` or a table as `[local]`.
        name: The name of the experiment.
        data_root: The folder of data sets.
        settings: Further keys and tables of an experiment file; None is left out.

    Raises:
        ConfigError: If an argument is wrong.
        DataError: If the data is wrong.
    """
    if not (isinstance(model, str | Mapping) or callable(model)):
        raise ConfigError(
            "`model` should be an nn.Module, a class or function that makes one, the name of a "
            f"model, or a table as [model]. Found {model!r}."
        )
    found = _data(data)
    dataset = None
    if not (_is_table(clients) or _is_partition(clients)):
        dataset = found if isinstance(found, Dataset) else _loaded(found, data_root)
        if isinstance(clients, Mapping | Sequence | np.ndarray) and not isinstance(clients, str):
            dataset = found = with_clients(
                dataset, list(clients) if isinstance(clients, np.ndarray) else clients
            )
            clients = None
    table = {
        "name": name,
        "rounds": rounds,
        "seeds": _seeds(seeds),
        "data": found,
        "model": {"name": model} if isinstance(model, str) else model,
        "local": local,
        "partition": _partition(clients, dataset),
        "latency": _latency(slow),
        "methods": _methods(methods),
        **settings,
    }
    return parse({k: _plain(k, v) for k, v in table.items() if v is not None})


def _data(data: Any) -> dict[str, Any] | Dataset:
    """Return the table `[data]` of the experiment, or the data set that is given."""
    if isinstance(data, str):
        return {"name": data}
    if isinstance(data, Mapping) and ("name" in data or "factory" in data):
        return dict(data)
    return as_dataset(data)


def _loaded(table: Mapping[str, Any], root: str | None) -> Dataset:
    parsed = parse_data(table)
    return data_sets.load(parsed.name, root) if parsed.own is None else own_dataset(parsed.own)


def _is_partition(value: Any) -> bool:
    return hasattr(value, "split") and not isinstance(value, str)


def _is_table(value: Any) -> bool:
    """Tell a table of settings from index lists by the names of clients."""
    return isinstance(value, Mapping) and (
        "kind" in value or not all(isinstance(one, Sequence | np.ndarray) for one in value.values())
    )


def _partition(clients: Any, dataset: Dataset | None) -> Any:
    if _is_partition(clients):
        return _instance(clients, "clients")
    if isinstance(clients, Mapping):
        return dict(clients)
    samples = 0 if dataset is None else len(dataset.y_train)
    if clients is None:
        if dataset is None or dataset.users_train is None:
            raise ConfigError(
                "`clients` should say who holds which samples: a number of clients, a partition "
                "such as us.Iid(20) or 'one_class', or lists of indices. Found none, and the data "
                "names no users."
            )
        return {"kind": "user"}
    if type(clients) is int:
        if not 1 <= clients <= samples:
            raise ConfigError(
                f"`clients` should be from 1 to the number of training samples, {samples}. "
                f"Found {clients}."
            )
        return {"kind": "dirichlet", "clients": clients, "samples": samples // clients}
    if isinstance(clients, str) and clients.endswith(".csv"):
        return {"kind": _kind_of(ByFile), "path": clients}
    if isinstance(clients, str):
        return _fitted(clients, samples)
    raise ConfigError(
        "`clients` should be a number, the name of a partition, a partition, a table as "
        f"[partition], or lists of indices. Found {type(clients).__name__}."
    )


def _fitted(kind: str, samples: int) -> dict[str, Any]:
    """Return a partition by name, with as many samples a client as there are."""
    kinds = KINDS["partition"][0]
    if kind not in kinds:
        raise UnknownNameError("`clients`", kind, kinds)
    defaults: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(kinds[kind])}
    table: dict[str, Any] = {"kind": kind}
    if isinstance(defaults.get("samples"), int):
        table["samples"] = max(1, min(defaults["samples"], samples // defaults["clients"]))
    return table


def _kind_of(cls: type[Partition]) -> str:
    return next(name for name, one in KINDS["partition"][0].items() if one is cls)


def _latency(slow: Any) -> Any:
    if slow is None:
        return {"kind": "none"}
    if hasattr(slow, "plan"):
        return _instance(slow, "slow")
    if isinstance(slow, Mapping):
        if slow and all(_is_index(key) for key in slow):
            return {"kind": "constant", "clients": list(slow), "rounds": list(slow.values())}
        listed = "kind" not in slow and isinstance(slow.get("clients"), list | tuple)
        return {**({"kind": "constant"} if listed else {}), **slow}
    if isinstance(slow, Sequence | range | np.ndarray) and not isinstance(slow, str):
        return {"kind": "constant", "clients": [_whole(one) for one in slow]}
    raise ConfigError(
        "`slow` should say who is late and by how many rounds: a table such as {'classes': [5], "
        "'clients': 3, 'rounds': 40}, rounds by client such as {0: 40, 7: 100}, a list of "
        f"clients, or a latency such as us.LognormalLatency(). Found {slow!r}."
    )


def _methods(methods: Any) -> list[Any]:
    if isinstance(methods, str | Method) or not isinstance(methods, Iterable):
        raise ConfigError(
            "`methods` should be a list, such as ['unweighted', 'convert'], or methods by label. "
            f"Found {methods!r}."
        )
    if isinstance(methods, Mapping):
        return [_method(one, str(label)) for label, one in methods.items()]
    return [_method(one, None) for one in methods]


def _method(value: Any, label: str | None) -> Any:
    """Return a method as a table, or as itself where it has no name to be made by."""
    named = {} if label is None else {"label": label}
    if isinstance(value, str):
        return {"name": value, **named}
    if isinstance(value, Mapping):
        if "tune" in value:
            raise ConfigError(
                "A method of `simulate` should have the settings to run with. Found `tune`, lists "
                "to choose from. Use an experiment file and `unstale run --tune`."
            )
        return {**value, **named}
    method = as_method(value)
    if method.name in METHODS and _is_plain(method.settings):
        return {"name": method.name, **method.settings, **named}
    shown = type(method.compensator).__name__ if method.name == "custom" else method.name
    return MethodConfig(method.name, label or shown, given=method)


def _seeds(seeds: Any) -> list[Any]:
    if not isinstance(seeds, Iterable) or isinstance(seeds, str):
        raise ConfigError(
            f"`seeds` should be a list, such as [0, 1, 2] or range(3). Found {seeds!r}."
        )
    return [_whole(seed) for seed in seeds]


def _plain(key: str, value: Any) -> Any:
    """Return a dataclass of settings as the table of a file; parts of one's own as they are."""
    if isinstance(value, type):
        return _instance(value, key)
    if key in KINDS and type(value) in (kinds := KINDS[key][0]).values():
        kind = next(name for name, cls in kinds.items() if cls is type(value))
        return {"kind": kind, **dataclasses.asdict(value)}
    is_settings = dataclasses.is_dataclass(value) and key in _SETTINGS
    return dataclasses.asdict(value) if is_settings else value


# Tables of settings that can be given as their dataclass.
_SETTINGS = ("local", "evaluate", "history", "limits", "protection", "storage")


def _instance(value: Any, what: str) -> Any:
    if isinstance(value, type) and what != "model":
        raise ConfigError(
            f"`{what}` should be an object. Found the class {value.__name__}. Write "
            f"{value.__name__}(…)."
        )
    return value


def _is_index(value: Any) -> bool:
    return type(value) is int or isinstance(value, np.integer)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
