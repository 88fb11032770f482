"""The loop of a run: ask, train, step, evaluate, write down."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import Result, Strategy

from unstale.flower.late_grid import LateGrid
from unstale.flower.messages import attendance
from unstale.flower.session import Session

# As in Flower: the version (which is the round's number) and the model's arrays.
EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


@dataclass(frozen=True, slots=True)
class Asking:
    """What nodes are told, and how long they are waited for."""

    train: ConfigRecord
    evaluate: ConfigRecord
    timeout: float | None
    on_nodes: bool
    """Whether nodes evaluate at all."""


def run_rounds(
    strategy: Strategy,
    grid: LateGrid,
    session: Session,
    arrays: ArrayRecord,
    num_rounds: int,
    asking: Asking,
    evaluate_fn: EvaluateFn | None,
) -> Result:
    """Run the rounds that are left and return what Flower's strategies return."""
    done = session.server.version
    result = Result(arrays=arrays)
    if evaluate_fn and done == 0:
        _keep(result.evaluate_metrics_serverapp, 0, evaluate_fn(0, arrays))
    try:
        for current in range(done + 1, num_rounds + 1):
            began = time.monotonic()
            # 1. Ask idle nodes; out come the replies of the fast ones, and late ones.
            messages = strategy.configure_train(current, result.arrays, asking.train, grid)
            before = session.intake.inherited(current)
            replies = grid.train_round(messages, timeout=asking.timeout, before=before)
            present = attendance(grid, replies)
            # 2. The server's step.
            made, trained = strategy.aggregate_train(current, replies)
            result.arrays = made or result.arrays
            _keep(result.train_metrics_clientapp, current, trained)
            # 3. Evaluate, on nodes and here.
            evaluated = measured = None
            if asking.on_nodes:
                questions = strategy.configure_evaluate(
                    current, result.arrays, asking.evaluate, grid
                )
                answers = grid.ask(questions, timeout=asking.timeout)
                evaluated = strategy.aggregate_evaluate(current, answers)
                _keep(result.evaluate_metrics_clientapp, current, evaluated)
            if evaluate_fn:
                measured = evaluate_fn(current, result.arrays)
                _keep(result.evaluate_metrics_serverapp, current, measured)
            # 4. Write it down, as soon as there is nothing else to do.
            evaluation = {**(evaluated or {}), **(measured or {})}
            session.end_round(evaluation, present, time.monotonic() - began)
    finally:
        session.write_down()
    session.finish({"replies": dict(grid.counts)})
    return result


def _keep(records: dict[int, MetricRecord], round: int, found: MetricRecord | None) -> None:
    if found is not None:
        records[round] = found
