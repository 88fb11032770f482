"""What each library shows of what a sink wrote, read back by the library itself."""

import json
from pathlib import Path


def tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by name, of one method and seed."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {
        name: [(event.step, event.value) for event in found.Scalars(name)]
        for name in found.Tags()["scalars"]
    }


def mlflow_client(folder: Path):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}")


def mlflow(folder: Path, name: str) -> tuple[object, dict[str, list[tuple[int, float]]]]:
    """The only run of a name, and steps and values by metric."""
    client = mlflow_client(folder)
    experiments = [e.experiment_id for e in client.search_experiments()]
    runs = [r for r in client.search_runs(experiments) if r.info.run_name == name]
    assert len(runs) == 1
    run = runs[0]
    return run, {
        metric: sorted(
            (m.step, m.value) for m in client.get_metric_history(run.info.run_id, metric)
        )
        for metric in run.data.metrics
    }


def wandb(folder: Path) -> dict[str, dict]:
    """By id of the run: name, group, config, summary, steps and values by name, exit codes."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    found: dict[str, dict] = {}
    for path in sorted((folder / "wandb").glob("offline-run-*/run-*.wandb")):
        store = DataStore()
        store.open_for_scan(str(path))
        record = wandb_internal_pb2.Record()
        of: dict = {}
        while (data := store.scan_data()) is not None:
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                one = record.run
                of = found.setdefault(one.run_id, {"scalars": {}, "summary": {}, "exit": []})
                of |= {"name": one.display_name, "group": one.run_group, "project": one.project}
                of["config"] = {u.key: json.loads(u.value_json) for u in one.config.update}
            elif kind == "history":
                items = {
                    "/".join(i.nested_key) or i.key: json.loads(i.value_json)
                    for i in record.history.item
                }
                step = items.pop("_step")
                for name, value in items.items():
                    if not name.startswith("_"):
                        of["scalars"].setdefault(name, []).append((step, value))
            elif kind == "summary":
                for u in record.summary.update:
                    of["summary"]["/".join(u.nested_key) or u.key] = json.loads(u.value_json)
            elif kind == "exit":
                of["exit"].append(record.exit.exit_code)
        store.close()
    return found
