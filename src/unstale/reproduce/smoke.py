"""Smoke runs: an experiment with everything that it has, but so small that it takes seconds.

The same methods and kinds of clients, latencies and models run on generated data for a few
rounds. What comes out says that an item works, and nothing about methods.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from unstale.errors import ConfigError
from unstale.reproduce.generated import STANDS_FOR

ROUNDS = 3
SEED, TUNING_SEED = 10, 0
_CLIENTS, _SAMPLES = 6, 12
_SHORT_FITS = {
    "inversion.iterations": 2,
    "inversion.warm_iterations": 1,
    "inversion.trial_iterations": 1,
    "inversion.warm_min_iterations": 1,
    "inversion.start": "grey",
    "inversion.restart_loss": 0.0,
    "calibration.probes": 1,
}


def smoke_settings(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that make an experiment small, by dotted key.

    Args:
        experiment: The table of its TOML file.

    Raises:
        ConfigError: If nothing takes the place of its data set.

    Example:
        >>> smoke_settings({"data": {"name": "mnist"}, "model": {"name": "lenet"}})["data.name"]
        'smoke_images'
    """
    return dict(_small(experiment))


def _small(experiment: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    name = experiment.get("data", {}).get("name")
    if name not in STANDS_FOR:
        raise ConfigError(
            f"A smoke run should have generated data for '{name}'. There is none. "
            f"Known are: {', '.join(STANDS_FOR)}."
        )
    model = experiment.get("model", {}).get("name")
    # LeNet needs larger images than ResNet-18 does.
    yield "data.name", "smoke_images" if model == "lenet" else STANDS_FOR[name]
    yield from (("rounds", ROUNDS), ("threads", 1))
    yield "evaluate.every", ROUNDS
    if "epochs" in experiment.get("local", {}):
        yield "local.epochs", 1
    if experiment.get("drift", {}).get("kind") == "look":
        yield "drift.to", "smoke_looks"
    if model == "resnet18":
        # As a whole: pretrained weights are of another size, and files are not read.
        yield "model", {"name": model, "widths": [8, 8, 8, 8], "groups": 4}
    if experiment.get("partition", {}).get("kind", "dirichlet") != "user":
        yield from (("partition.clients", _CLIENTS), ("partition.samples", _SAMPLES))
    if experiment.get("latency", {}).get("kind", "intertwined") == "intertwined":
        yield from (("latency.clients", 1), ("latency.rounds", 1))
    if experiment.get("cohort", {}).get("kind") == "sample":
        yield from (("cohort.fast", 2), ("cohort.slow", 1))
    methods = [
        one if isinstance(one, dict) else {"name": one} for one in experiment.get("methods", [])
    ]
    if any("tune" in one for one in methods):
        yield from (("tuning.seeds", [TUNING_SEED]), ("tuning.budget", 1))
    for one in methods:
        if one.get("name") == "convert":
            label = one.get("label", "convert")
            for key, value in _SHORT_FITS.items():
                yield f"methods.{label}.{key}", value
