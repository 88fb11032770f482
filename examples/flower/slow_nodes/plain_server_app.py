"""The server before: Flower's FedAvg, which waits in every round for the slowest node."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from slow_nodes import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for the configured number of rounds."""
    config = context.run_config
    model = task.build_model(config)

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord(task.test(model, config))

    strategy = FedAvg(
        fraction_train=float(config["fraction-train"]),
        fraction_evaluate=0.0,
        min_available_nodes=int(config["min-nodes"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        num_rounds=int(config["num-rounds"]),
        evaluate_fn=evaluate,
    )
