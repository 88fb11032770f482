"""A run's numbers as TensorBoard scalars. Needs `unstale[tensorboard]`."""

import logging
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unstale.errors import ConfigError
from unstale.run_folder import Round
from unstale.run_folder.schema import Metric, Nodes

logger = logging.getLogger(__name__)


def check_installed() -> None:
    """Make sure that scalars can be written.

    Raises:
        ConfigError: If TensorBoard is not installed.
    """
    _writer_class()


def _writer_class() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "TensorBoard should be installed to write its scalars. It is not. "
            "Install it with: pip install 'unstale[tensorboard]'. Or leave `tensorboard` out."
        ) from error
    return SummaryWriter


class Scalars:
    """Writes scalars of every round into a folder that TensorBoard reads.

    Args:
        folder: Where; of its own for each run.
        after: The round after which a resumed run goes on: TensorBoard forgets what an
            earlier process wrote beyond it. None for a new run.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        self._writer = _writer_class()(str(folder), purge_step=None if after is None else after + 1)
        # Codes seen so far: from then on they are told in every round, also when 0.
        self._codes: set[str] = set()
        self._failed = False

    def round(self, line: Round) -> None:
        """Write the scalars of a round; what cannot be written is no reason to stop a server."""
        if self._failed:
            return
        self._codes.update(line.refused)
        try:
            for name, value in scalars_of(line, self._codes).items():
                self._writer.add_scalar(name, value, line.number)
            self._writer.flush()  # a killed server loses nothing
        except OSError as error:
            self._failed = True
            logger.warning("No more scalars are written for TensorBoard: %s", error)

    def close(self) -> None:
        """Finish the file."""
        try:
            self._writer.close()
        except OSError as error:
            logger.warning("The scalars for TensorBoard are not complete: %s", error)


def scalars_of(line: Round, codes: set[str]) -> dict[str, float]:
    """Return the scalars of a round's line by name; what is not known is left out.

    Args:
        line: As `round_line` makes it.
        codes: The codes of refusals to tell, whether there are any or not.
    """
    losses = [one.loss for one in line.converted if one.loss is not None]
    errors = [one.error for one in line.checked if one.error is not None]
    shares = [one.share for one in line.converted if one.share is not None]
    nodes = line.nodes or Nodes()
    found: dict[str, Metric] = {
        "accuracy/all": line.accuracy,
        "accuracy/affected": line.affected_accuracy,
        "loss/test": line.loss,
        **{f"metrics/{name}": value for name, value in line.metrics.items()},
        "arrivals/all": line.arrivals,
        "arrivals/stale": line.stale,
        "nodes/answered": len(nodes.answered),
        "nodes/working": len(nodes.working),
        "nodes/longest_work": max(nodes.working.values(), default=0),
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
        # How far off earlier ones were, once the node's own update came.
        "stand_ins/error": _mean(errors),
        "calibration/count": len(line.calibrated),
        "calibration/probes_fitted": line.notes.get("probed", 0),
        "calibration/stale_error": _mean(
            e for one in line.calibrated if (e := one.stale_error) is not None
        ),
        "calibration/error": _mean(e for one in line.calibrated if (e := one.error) is not None),
        "calibration/other_recipes": len(line.other_recipes),
        "refused/all": sum(line.refused.values()),
        **{f"refused/{code}": line.refused.get(code, 0) for code in sorted(codes)},
        "seconds/round": line.seconds,
        "seconds/step": line.step_seconds,
        "history/megabytes": line.history_bytes / 1e6,
    }
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float)  # a metric may also be a list, or not known
    }


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.fmean(found) if found else None
