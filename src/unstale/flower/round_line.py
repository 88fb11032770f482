"""One round of a server on Flower as a JSON line: the simulator's fields, and the nodes."""

import math
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from unstale.server.report import Report

# In every line, None where a round was not evaluated; the report page is drawn from them.
SCORES = ("accuracy", "affected_accuracy", "class_accuracy", "loss")
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
) -> dict[str, Any]:
    """Return the line of one round.

    Names of metrics may be written with hyphens, as is usual in Flower. Those that the
    page knows (`SCORES`) are fields of the line, all others are under `metrics`.

    Args:
        report: What the server's step reports.
        round: Its number, from 1.
        evaluation: What was measured of the new model; empty in rounds without.
        answered: The nodes whose replies came in this round, late ones included.
        late: Those of them whose reply belongs to an earlier round, and by how many rounds.
        working: The nodes that have not answered yet, and since how many rounds.
        refused: What was refused, of whom, and why; the server's refusals and the engine's.
        seconds: Wall time of the round.

    Example:
        >>> report = Report(version=3, staleness=(0, 2), notes=())
        >>> line = round_line(report, round=3, evaluation={"affected-accuracy": 0.5, "f1": 0.6},
        ...                   answered=["7", "8"], late={"8": 2}, working={"9": 1},
        ...                   refused=[("5", "shape", "too long")], seconds=4.0)
        >>> line["affected_accuracy"], line["accuracy"], line["metrics"], line["refused"]
        (0.5, None, {'f1': 0.6}, {'shape': 1})
        >>> line["nodes"]["late"], line["nodes"]["working"]
        ({'8': 2}, {'9': 1})
    """
    told = report.to_json()
    measured = {str(key).replace("-", "_"): value for key, value in evaluation.items()}
    scores = {key: _finite(measured.pop(key, None)) for key in SCORES}
    metrics = {printable(key): _finite(value) for key, value in sorted(measured.items())}
    return {
        "round": round,
        **told,
        # The engine refuses what cannot even be decoded; the server has never seen that.
        "refused": _most(Counter(code for _, code, _ in refused), told["refused"]),
        "seconds": seconds,
        "step_seconds": told["seconds"],
        **scores,
        **({"metrics": metrics} if metrics else {}),
        "nodes": {
            "answered": sorted(answered),
            "late": {node: late[node] for node in sorted(late) if late[node] > 0},
            "working": dict(sorted(working.items())),
            "refused": [
                {"node": printable(node), "code": code, "reason": printable(reason, MAX_REASON)}
                for node, code, reason in refused[:MAX_REFUSED]
            ],
        },
    }


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {code: max(one.get(code, 0), other.get(code, 0)) for code in sorted({*one, *other})}


def _finite(value: float | Sequence[float] | None) -> float | list[float | None] | None:
    """Return what JSON can hold; NaN, infinities and what is no number become null."""
    if isinstance(value, list | tuple):
        return [_number(one) for one in value]
    return _number(value)


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
