"""The server, with the weights of every version written down."""

from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from torch import nn

import unstale as us
from hostile_app.honest import SHAPES
from unstale.flower import ClosePolicy, Cohort, Unstale

app = ServerApp()


def build_model() -> nn.Module:
    """Return the model, with the same weights always."""
    model = nn.Linear(*reversed(SHAPES["weight"]))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.linspace(0, 1, p.numel()).reshape(SHAPES[name]))
    return model


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for as many rounds as there are attacks, and one more."""
    config = context.run_config
    trace = Path(str(config["trace"]))
    trace.mkdir()

    def evaluate(version: int, arrays: ArrayRecord) -> None:
        weights = {name: array.numpy() for name, array in arrays.items()}
        np.savez(trace / f"version-{version}.npz", **weights)

    strategy = Unstale(
        build_model(),
        us.ServerSettings("unweighted", limits=us.Limits(max_norm=100.0, max_examples=1000)),
        cohort=Cohort(min_available_nodes=3),
        close=ClosePolicy(deadline=600),  # every node's reply is waited for
        folder=str(config["folder"]),
    )
    strategy.start(grid=grid, num_rounds=int(config["num-rounds"]), evaluate_fn=evaluate)
