"""A round, and a summary, as scalars by name: the same names in every sink."""

import math
import re
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from unstale.run_folder.schema import Metric, Nodes, Round

# What all sinks take in a name. Codes and metrics of apps are foreign text.
_OTHER = re.compile(r"[^\w./-]", re.ASCII)


def scalars_of(line: Round, codes: Iterable[str] = ()) -> dict[str, float]:
    """Return the scalars of a round's line by name; what is not known is left out.

    Args:
        line: The line.
        codes: Codes of refusals to tell, whether there are any in this round or not.

    Example:
        >>> found = scalars_of(Round(3, accuracy=0.5, arrivals=4, refused={"too_late": 1}))
        >>> found["accuracy/all"], found["arrivals/all"], found["refused/too_late"]
        (0.5, 4.0, 1.0)
    """
    losses = [one.loss for one in line.converted if one.loss is not None]
    errors = [one.error for one in line.checked if one.error is not None]
    shares = [one.share for one in line.converted if one.share is not None]
    found: dict[str, Metric] = {
        "accuracy/all": line.accuracy,
        "accuracy/affected": line.affected_accuracy,
        "loss/test": line.loss,
        **{f"metrics/{name}": value for name, value in line.metrics.items()},
        "arrivals/all": line.arrivals,
        "arrivals/stale": line.stale,
        **_of_nodes(line.nodes),
        "staleness/mean": line.mean_staleness,
        "staleness/max": line.max_staleness,
        "conversions/count": line.conversions,
        "conversions/iterations": line.iterations,
        "conversions/loss": _mean(losses),
        "conversions/share": _mean(shares),  # of the estimate in what was used
        "conversions/fallbacks": line.notes.get("fallback", 0),
        "conversions/awaiting_fit": line.awaiting_fit,  # only where fits run in the background
        "stand_ins/absent": line.absent,
        "stand_ins/count": len(line.stand_ins),
        "stand_ins/mean_age": _mean(one.age for one in line.stand_ins),
        # How far off earlier ones were, once the client's own update came.
        "stand_ins/error": _mean(errors),
        "calibration/count": len(line.calibrated),
        "calibration/probes_fitted": line.notes.get("probed", 0),
        "calibration/stale_error": _mean(
            e for one in line.calibrated if (e := one.stale_error) is not None
        ),
        "calibration/error": _mean(e for one in line.calibrated if (e := one.error) is not None),
        "calibration/other_recipes": len(line.other_recipes),
        "refused/all": sum(line.refused.values()),
        **{f"refused/{code}": line.refused.get(code, 0) for code in {*codes, *line.refused}},
        "seconds/round": line.seconds,
        "seconds/step": line.step_seconds,
        "history/megabytes": line.history_bytes / 1e6,
        **{f"oracle/{name}": value for name, value in line.oracle.items()},
    }
    return _finite(found)


def summary_scalars(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of a method and seed as scalars under `summary/`.

    Args:
        figures: What `unstale.run_folder.summary.figures` returned.

    Example:
        >>> summary_scalars({"accuracy": 0.9, "held_from": None, "diverged": False})
        {'summary/accuracy': 0.9, 'summary/diverged': 0.0}
    """
    return _finite({f"summary/{name}": value for name, value in figures.items()})


def _of_nodes(nodes: Nodes | None) -> dict[str, Metric]:
    """Return what is known where clients are real."""
    if nodes is None:
        return {}
    return {
        "nodes/answered": len(nodes.answered),
        "nodes/working": len(nodes.working),
        "nodes/longest_work": max(nodes.working.values(), default=0),
    }


def _finite(found: Mapping[str, Any]) -> dict[str, float]:
    return {
        _OTHER.sub("_", name): float(value)
        for name, value in found.items()
        # A metric may also be a list, or not known.
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.fmean(found) if found else None
