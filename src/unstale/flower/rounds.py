"""The rounds of a run: ask, train, step, evaluate, write down."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp.strategy import Result, Strategy

from unstale.flower.grid import LateGrid
from unstale.flower.session import Attendance, Session

logger = logging.getLogger(__name__)

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
            inherited = session.book.inherited(current)
            replies = grid.train_round(messages, timeout=asking.timeout, inherited=inherited)
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


def attendance(grid: LateGrid, replies: Iterable[Message]) -> Attendance:
    """Return who answered in the round that has just closed, and who still works.

    What a process took in before it died counts as if it had come to this one.
    """
    arrivals = [a for a in map(grid.arrival_of, replies) if a and a.outcome == "answered"]
    came = [(str(a.ticket.node_id), a.rounds_late) for a in arrivals]
    working = {str(node): grid.round - t.round for node, t in grid.working().items()}
    for entry in grid.book.inherited_entries():
        node, rounds = entry.key[0], grid.round - entry.sent
        if entry.due <= grid.round:
            came.append((node, rounds))
        else:
            working[node] = rounds
    return Attendance(
        answered=[node for node, _ in came],
        late={node: rounds for node, rounds in came if rounds > 0},
        working=working,
        slow=grid.slow_nodes(),
    )
