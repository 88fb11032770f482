"""The sink of MLflow, with the real library and a database in a file."""

import sqlite3
from contextlib import closing

import pytest
from read_back import mlflow, mlflow_client
from told_rounds import line

from unstale.sinks import scalars_of
from unstale.sinks.mlflow import MLflow

pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """An empty database, copied by every test: MLflow takes seconds to make one."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(autouse=True)
def _empty(folder, tables):
    (folder.path / "mlflow").mkdir()
    (folder.path / "mlflow" / "mlflow.db").write_bytes(tables.read_bytes())


def test_what_is_written_can_be_read_back(folder, tell):
    tell([MLflow()], range(1, 9), finish=True)
    run, found = mlflow(folder.path, "convert seed 0")
    for t in (1, 3, 8):
        for name, value in scalars_of(line(t)).items():
            assert dict(found[name])[t] == pytest.approx(value), name
    assert found["refused/not_finite"] == [(4, 1.0), (5, 0.0), (6, 0.0), (7, 0.0), (8, 0.0)]
    assert found["summary/accuracy"] == [(8, pytest.approx(0.75))]
    assert run.info.status == "FINISHED"
    assert run.data.params["local.lr"] == "0.1"
    assert run.data.params["method.label"] == "convert"
    assert run.data.params["seed"] == "0"
    (experiment,) = mlflow_client(folder.path).search_experiments(filter_string="name='two-sites'")
    assert experiment.experiment_id == run.info.experiment_id
    assert experiment.artifact_location == (folder.path / "mlflow" / "artifacts").as_uri()


def test_a_resumed_run_goes_on_in_the_same_run(folder, tell):
    tell([MLflow()], range(1, 6))
    first, _ = mlflow(folder.path, "convert seed 0")
    assert first.info.status == "KILLED"
    tell([MLflow()], range(1, 9), finish=True)
    run, found = mlflow(folder.path, "convert seed 0")
    assert run.info.run_id == first.info.run_id
    assert [step for step, _ in found["arrivals/all"]] == list(range(1, 9))
    assert run.info.status == "FINISHED"


def test_a_database_that_a_killed_process_left_half_made_is_made_anew(folder, tell):
    place = folder.path / "mlflow"
    (place / "mlflow.db").unlink()
    with closing(sqlite3.connect(place / "new.db")) as half:  # the first of MLflow's tables
        half.execute("CREATE TABLE experiments (experiment_id INTEGER)")
        half.commit()
    tell([MLflow()], range(1, 4), finish=True)
    run, found = mlflow(folder.path, "convert seed 0")
    assert [step for step, _ in found["arrivals/all"]] == [1, 2, 3]
    assert run.info.status == "FINISHED"
    assert [path.name for path in place.glob("*.db")] == ["mlflow.db"]


def test_a_run_that_was_killed_before_its_settings_were_written_gets_them(folder, tell):
    tell([MLflow()], [1])
    client = mlflow_client(folder.path)
    run, _ = mlflow(folder.path, "convert seed 0")
    whole = run.data.params
    with closing(sqlite3.connect(folder.path / "mlflow" / "mlflow.db")) as database:
        database.execute("DELETE FROM metrics")
        database.execute("DELETE FROM latest_metrics")
        database.execute("DELETE FROM params WHERE key LIKE 'local%'")
        database.commit()
    record = folder.sinks_path("convert", 0)
    record.write_text(record.read_text().replace('"written": 1', '"written": 0'))
    assert client.get_run(run.info.run_id).data.params != whole
    tell([MLflow()], range(1, 3), finish=True)
    assert client.get_run(run.info.run_id).data.params == whole


def test_a_record_that_was_lost_repeats_no_round(folder, tell):
    tell([MLflow()], range(1, 6))
    record = folder.sinks_path("convert", 0)
    record.write_text(record.read_text().replace('"written": 5', '"written": 3'))
    tell([MLflow()], range(1, 9))
    _, found = mlflow(folder.path, "convert seed 0")
    assert [step for step, _ in found["arrivals/all"]] == list(range(1, 9))


def test_methods_are_runs_of_one_experiment(folder, tell):
    for label in ("convert", "memory"):
        tell([MLflow()], range(1, 4), label=label)
    one, _ = mlflow(folder.path, "convert seed 0")
    other, _ = mlflow(folder.path, "memory seed 0")
    assert one.info.experiment_id == other.info.experiment_id
    assert one.info.run_id != other.info.run_id


def test_its_own_settings_say_where(folder, tell, tmp_path, monkeypatch, tables):
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "mlflow").mkdir()
    database = tmp_path / "server" / "mlflow" / "mlflow.db"
    database.write_bytes(tables.read_bytes())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "hospital")
    tell([MLflow()], range(1, 4))
    run, _ = mlflow(tmp_path / "server", "convert seed 0")
    client = mlflow_client(tmp_path / "server")
    assert client.get_experiment(run.info.experiment_id).name == "hospital"
    assert {e.name for e in mlflow_client(folder.path).search_experiments()} == {"Default"}


def test_many_long_settings_are_taken(folder, tell):
    import json

    config = json.loads(folder.config_path.read_text())
    config["many"] = {f"key {i}*": i for i in range(250)}
    config["long"] = "x" * 9000
    folder.config_path.write_text(json.dumps(config))
    tell([MLflow()], [1])
    run, _ = mlflow(folder.path, "convert seed 0")
    assert run.data.params["many.key 249_"] == "249"
    assert len(run.data.params["long"]) == 500


def test_a_server_that_is_away_does_not_stop_the_run(folder, tell, monkeypatch, caplog):
    # A port of this machine that nobody listens on; without repetitions, which take minutes.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tell([MLflow()], range(1, 9), finish=True)
    said = [r.getMessage() for r in caplog.records if r.name == "unstale.sinks.feed"]
    assert len(said) == 1
    assert "The sink MLflow failed" in said[0]
