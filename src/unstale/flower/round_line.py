"""The line of a round on Flower: the step's part, the evaluation, and the nodes."""

import dataclasses
import math
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence

from unstale.run_folder.schema import Metric, Nodes, RefusedReply, Round
from unstale.server.report import Report

# A refusal quotes what a stranger sent: enough to see what was wrong, not a page of it.
MAX_REASON = 300
# Refusals told one by one in a line; all of them are counted.
MAX_REFUSED = 50

# The node, a short code, and why.
Refusal = tuple[str, str, str]
# What was measured of the model, by name; one number, or one for each class.
Evaluation = Mapping[str, float | Sequence[float] | None]


def round_line(
    report: Report,
    *,
    round: int,
    evaluation: Evaluation,
    answered: Sequence[str],
    late: Mapping[str, int],
    working: Mapping[str, int],
    refused: Sequence[Refusal],
    seconds: float,
) -> Round:
    """Return the line of one round.

    Names of metrics may be written with hyphens, as is usual in Flower. The four that the
    report page knows (`accuracy`, `affected_accuracy`, `class_accuracy`, `loss`) are fields of
    the line, all others are under `metrics`.

    Args:
        report: What the server's step reports, as the server returned it.
        round: Its number, from 1.
        evaluation: What was measured of the new model; empty in rounds without.
        answered: The nodes whose replies came in this round, late ones included.
        late: Those of them whose reply belongs to an earlier round, and by how many rounds.
        working: The nodes that have not answered yet, and since how many rounds.
        refused: The replies that were refused before the server saw them: of whom, and why.
        seconds: Wall time of the round.

    Example:
        >>> report = Report(version=3, staleness=(0, 2), notes=())
        >>> line = round_line(report, round=3, evaluation={"affected-accuracy": 0.5, "f1": 0.6},
        ...                   answered=["7", "8"], late={"8": 2}, working={"9": 1},
        ...                   refused=[("5", "shape", "too long")], seconds=4.0)
        >>> line.affected_accuracy, line.accuracy, line.metrics, line.refused
        (0.5, None, {'f1': 0.6}, {'shape': 1})
        >>> line.nodes.late, line.nodes.working
        ({'8': 2}, {'9': 1})
    """
    measured = {str(key).replace("-", "_"): value for key, value in evaluation.items()}
    by_class = measured.pop("class_accuracy", None)
    scores = {key: measured.pop(key, None) for key in ("accuracy", "affected_accuracy", "loss")}
    return dataclasses.replace(
        report.line(),
        number=round,
        refused=count_refusals(report.refused, refused),
        seconds=seconds,
        step_seconds=report.seconds,
        accuracy=_number(scores["accuracy"]),
        affected_accuracy=_number(scores["affected_accuracy"]),
        class_accuracy=_by_class(by_class),
        loss=_number(scores["loss"]),
        metrics={printable(key): _metric(value) for key, value in sorted(measured.items())},
        nodes=Nodes(
            answered=tuple(sorted(answered)),
            late={node: late[node] for node in sorted(late) if late[node] > 0},
            working=dict(sorted(working.items())),
            refusals=tuple(
                RefusedReply(printable(node), code, printable(reason, MAX_REASON))
                for node, code, reason in refused[:MAX_REFUSED]
            ),
        ),
    )


def count_refusals(by_server: Mapping[str, int], before: Sequence[Refusal]) -> dict[str, int]:
    """Return how many replies were refused in a round, by code, each counted once.

    A reply is refused either before the server sees it (it cannot be decoded, a check fails, or
    the node's work failed) or by `Server.submit`, never by both. So the counts add up.

    Args:
        by_server: `refused` of the server's report.
        before: What the server never saw.

    Example:
        >>> count_refusals({"repeated": 1}, [("5", "shape", "too long"), ("6", "repeated", "")])
        {'repeated': 2, 'shape': 1}
    """
    total = Counter(by_server) + Counter(code for _, code, _ in before)
    return dict(sorted(total.items()))


def _metric(value: float | Sequence[float] | None) -> Metric:
    """Return what JSON can hold; NaN, infinities and what is no number become null."""
    return _by_class(value) if isinstance(value, list | tuple) else _number(value)


def _by_class(value: object) -> tuple[float | None, ...] | None:
    return tuple(map(_number, value)) if isinstance(value, list | tuple) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, numbers.Real) and math.isfinite(value) else None


def printable(text: object, most: int = 80) -> str:
    r"""Return foreign text on one line, without control characters, in bounded length.

    Example:
        >>> printable("a\n\x1b[31mb" + 100 * "c", most=8)
        'a  [31m…'
    """
    # Cut first: a stranger's text may be a gigabyte.
    plain = "".join(char if char.isprintable() else " " for char in str(text)[: most + 1])
    return plain if len(plain) <= most else plain[: most - 1] + "…"
