"""The server: it goes on with whatever run its folder holds."""

from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from probing_app.fingerprint import fingerprint, write
from torch import nn

import unstale as us
from blobs_app import task
from unstale.flower import ClosePolicy, Cohort, Unstale

LOCAL = us.LocalSpec(lr=task.LR, epochs=task.EPOCHS)
SEEN = us.InputSpec(shape=(task.INPUTS,), classes=task.CLASSES)

app = ServerApp()


def build_model() -> nn.Module:
    """Return the model as every run begins with it."""
    model = nn.Linear(task.INPUTS, task.CLASSES)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train to the configured number of rounds."""
    config = context.run_config

    def evaluate(version: int, arrays: ArrayRecord) -> MetricRecord:
        write(Path(str(config["trace"])), f"version-{version}", {"weights": fingerprint(arrays)})
        return MetricRecord(task.accuracy({name: a.numpy() for name, a in arrays.items()}))

    strategy = Unstale(
        build_model(),
        us.ServerSettings(
            method=str(config["method"]),
            local=LOCAL,
            inputs=SEEN,
            background=us.Background() if config["background"] else None,
        ),
        cohort=Cohort(min_available_nodes=int(config["min-nodes"])),
        close=ClosePolicy(float(config["close-fraction"]), float(config["close-deadline"])),
        folder=str(config["folder"]),
        sinks=str(config["sinks"]).split(),
    )
    strategy.start(
        grid=grid, num_rounds=int(config["num-rounds"]), evaluate_fn=evaluate, resume=True
    )
