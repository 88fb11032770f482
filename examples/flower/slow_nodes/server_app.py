"""The server: Unstale in the place of FedAvg. What changed: `diff plain_server_app.py`."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

import unstale as us
from slow_nodes import emulation, task
from unstale.flower import ClosePolicy, Cohort, Unstale

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for the configured number of rounds."""
    config = context.run_config
    model = task.build_model(config)

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord(task.test(model, config))

    local, inputs = task.recipe(config)
    settings = {} if config["stand-in"] else {"stand_in": {"enabled": False}}
    strategy = Unstale(
        model,
        us.ServerSettings(
            method=us.method(str(config["method"]), **settings),
            local=local,
            inputs=inputs,
            seed=int(config["seed"]),
            optimizer=str(config["optimizer"]),
        ),
        cohort=Cohort(
            fraction_train=float(config["fraction-train"]),
            min_available_nodes=int(config["min-nodes"]),
        ),
        close=ClosePolicy(float(config["close-fraction"]), float(config["close-deadline"])),
        delay=emulation.delays(grid, config),
        folder=str(config["folder"]),
        about=task.about(config),
    )
    strategy.start(
        grid=grid,
        num_rounds=int(config["num-rounds"]),
        evaluate_fn=evaluate,
        resume=bool(config["resume"]),
    )
