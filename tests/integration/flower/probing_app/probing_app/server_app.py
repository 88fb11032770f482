"""The example's server with a record of what each version was."""

from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from slow_nodes import task

import unstale as us
from probing_app.fingerprint import fingerprint, write
from unstale.flower import ClosePolicy, Cohort, Unstale

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for the configured number of rounds."""
    config = context.run_config
    model = task.build_model(config)

    def evaluate(version: int, arrays: ArrayRecord) -> MetricRecord:
        write(Path(str(config["trace"])), f"version-{version}", {"weights": fingerprint(arrays)})
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord(task.test(model, config))

    def who(records: list[RecordDict], weighted_by: str) -> MetricRecord:
        """Aggregate metrics by a function of our own: who has sent them, and a sum of lists."""
        nodes = [int(str(record["site"]["node"])) for record in records]
        pairs = [record["metrics"]["twice"] for record in records]
        assert all(record["metrics"][weighted_by] for record in records)
        # An id may be larger than a metric can be.
        low = [node % 2**31 for node in nodes]
        return MetricRecord({"nodes": low, "sums": [sum(of) for of in zip(*pairs, strict=True)]})

    local, inputs = task.recipe(config)
    strategy = Unstale(
        model,
        us.ServerSettings(
            method=str(config["method"]),
            local=local,
            inputs=inputs,
            limits=us.Limits(max_examples=int(config["max-examples"])),
        ),
        cohort=Cohort(
            fraction_train=float(config["fraction-train"]),
            min_available_nodes=int(config["min-nodes"]),
        ),
        close=ClosePolicy(float(config["close-fraction"]), float(config["close-deadline"])),
        folder=str(config["folder"]),
        train_metrics_aggr_fn=who,
    )
    result = strategy.start(
        grid=grid,
        num_rounds=int(config["num-rounds"]),
        evaluate_fn=evaluate,
        resume=bool(config["resume"]),
    )
    found = {str(round): dict(record) for round, record in result.train_metrics_clientapp.items()}
    write(Path(str(config["trace"])), "train-metrics", found)
