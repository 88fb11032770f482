"""The sink `mlflow`: runs of MLflow's tracking. Needs `unstale[mlflow]`."""

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from unstale.sinks.base import SinkRun, require

if TYPE_CHECKING:
    from mlflow import MlflowClient

# By which a resumed run finds its run in MLflow.
ID = "unstale.id"
# MLflow takes so many parameters at once, and so long values.
_BATCH, _LONGEST = 100, 500
# A scalar of every round.
_EVERY_ROUND = "arrivals/all"


class MLflow:
    """Writes a run of MLflow for each method and seed, in an experiment of the config's name.

    Where to is MLflow's own setting: `MLFLOW_TRACKING_URI`, or `mlflow.set_tracking_uri`. If
    that is not set, it is a database in the folder `mlflow/` of the run folder.
    `MLFLOW_EXPERIMENT_NAME` is another name for the experiment. MLflow's telemetry is off unless
    `MLFLOW_DISABLE_TELEMETRY` says otherwise.

    Raises:
        ConfigError: If MLflow is not installed.
    """

    def __init__(self) -> None:
        require("mlflow", "MLflow", "mlflow")

    def open(self, run: SinkRun) -> "_Writer":
        """Begin a run, or go on with the one that has its id as a tag."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        import mlflow
        from mlflow import MlflowClient

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.experiment
        if mlflow.is_tracking_uri_set():  # type: ignore[no-untyped-call]
            client = MlflowClient(tracking_uri=mlflow.get_tracking_uri())
            return _Writer(client, _experiment(client, name, None), run)
        place = run.folder / "mlflow"
        place.mkdir(exist_ok=True)
        # It says that it makes tables.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
        client = MlflowClient(tracking_uri=_uri(_database(place)))
        return _Writer(client, _experiment(client, name, place / "artifacts"), run)


def _database(place: Path) -> Path:
    """Return the database of a folder; make it if there is none.

    MLflow makes a new database table by table, and cannot open one that a killed process has left
    half made. So it is made under another name, which is begun anew after a crash.
    """
    from mlflow import MlflowClient

    made, new = place / "mlflow.db", place / "new.db"
    with FileLock(place / "new.lock"):  # methods may begin at once, in processes of their own
        if not made.exists():
            for left in place.glob("new.db*"):
                left.unlink()
            MlflowClient(tracking_uri=_uri(new)).search_experiments(max_results=1)
            new.replace(made)
    return made


def _uri(database: Path) -> str:
    return f"sqlite:///{database.as_posix()}"


class _Writer:
    def __init__(self, client: "MlflowClient", experiment: str, run: SinkRun) -> None:
        self._client = client
        self.written = run.written
        found = client.search_runs([experiment], f"tags.`{ID}` = '{run.id}'")
        if found:
            self._id = found[0].info.run_id
            client.update_run(self._id, status="RUNNING")
            # What was written just before a crash.
            known = client.get_metric_history(self._id, _EVERY_ROUND)
            self.written = max((metric.step for metric in known), default=0)
            if not self.written:  # perhaps it was killed before its settings were there
                self._settings(run.settings)
            return
        tags = {ID: run.id, "unstale.run": run.folder.name}
        self._id = client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
        self._settings(run.settings)

    def _settings(self, settings: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        params = [
            Param(re.sub(r"[^\w. /-]", "_", key, flags=re.ASCII)[:250], str(value)[:_LONGEST])
            for key, value in flat(settings)
        ]
        for at in range(0, len(params), _BATCH):
            self._client.log_batch(self._id, params=params[at : at + _BATCH])

    def write(self, round: int, scalars: Mapping[str, float]) -> None:
        """Write a round."""
        self._log(round, scalars)
        self.written = round

    def close(self, summary: Mapping[str, float] | None) -> None:
        """Write the summary at the last round, and end the run."""
        if summary:
            self._log(self.written, summary)
        self._client.set_terminated(self._id, "KILLED" if summary is None else "FINISHED")

    def _log(self, step: int, scalars: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        metrics = [Metric(name, value, now, step) for name, value in scalars.items()]
        self._client.log_batch(self._id, metrics=metrics)


def _experiment(client: "MlflowClient", name: str, artifacts: Path | None) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    return client.create_experiment(name, None if artifacts is None else artifacts.as_uri())


def flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings with dotted names.

    Example:
        >>> list(flat({"seed": 1, "local": {"lr": 0.1, "betas": [0.9, 0.99]}}))
        [('seed', 1), ('local.lr', 0.1), ('local.betas', [0.9, 0.99])]
    """
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
