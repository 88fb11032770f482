"""What clients measured, averaged over those that measured it."""

import logging
import math
from collections.abc import Iterable, Mapping

from flwr.app import Message, MetricRecord

from unstale.flower.admission import Admission
from unstale.flower.decode import RefusedReplyError, decode_metrics

logger = logging.getLogger(__name__)


def mean_metrics(measured: Iterable[tuple[int, Mapping[str, float]]]) -> MetricRecord | None:
    """Return the mean of every metric, weighted by examples, or None if there is none.

    A client that lacks a metric, or sent one that is no number, has no part in its mean.

    Example:
        >>> dict(mean_metrics([(1, {"loss": 4.0}), (3, {"loss": 0.0, "f1": 0.5})]))
        {'loss': 1.0, 'f1': 0.5}
    """
    weights: dict[str, float] = {}
    sums: dict[str, float] = {}
    for num_examples, metrics in measured:
        for name, value in metrics.items():
            weights[name] = weights.get(name, 0.0) + num_examples
            sums[name] = sums.get(name, 0.0) + num_examples * value
    means = {name: total / weights[name] for name, total in sums.items()}
    # Sums of huge numbers may overflow.
    finite = {name: value for name, value in means.items() if math.isfinite(value)}
    return MetricRecord(dict(finite)) if finite else None


def mean_evaluation(replies: Iterable[Message], admission: Admission) -> MetricRecord | None:
    """Return the mean of what nodes measured; replies that cannot be taken are left out."""
    measured = []
    for message in replies:
        if not message.has_content():
            continue
        try:
            measured.append(
                decode_metrics(
                    message.content,
                    max_bytes=admission.max_bytes,
                    examples_key=admission.examples_key,
                )
            )
        except RefusedReplyError as error:
            node = message.metadata.src_node_id
            logger.warning("The evaluation of node %s is left out: %s", node, error.reason)
    return mean_metrics(measured)
