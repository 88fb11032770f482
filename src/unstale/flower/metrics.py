"""Metrics of a round: what clients sent becomes one record, by a mean or by the user's function."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flwr.app import Message, MetricRecord, RecordDict

from unstale.errors import ConfigError
from unstale.flower.arrays import RefusedReplyError
from unstale.flower.decode import ReplyForm, decode_metrics
from unstale.flower.journal import Entry
from unstale.flower.kept_records import records_from_json

logger = logging.getLogger(__name__)

# As of Flower's FedAvg: the records of the replies and the name of the metric to weigh by.
MetricsFn = Callable[[list[RecordDict], str], MetricRecord]


@dataclass(frozen=True, slots=True)
class MetricAggregation:
    """How the metrics of a round's replies are aggregated.

    Raises:
        ConfigError: If a function is no function.
    """

    form: ReplyForm
    """What a reply should look like."""
    train: MetricsFn | None = None
    """`train_metrics_aggr_fn`; None for a mean weighted by examples."""
    evaluate: MetricsFn | None = None
    """`evaluate_metrics_aggr_fn`; likewise."""

    def __post_init__(self) -> None:
        for name in ("train", "evaluate"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise ConfigError(
                    f"Unstale: `{name}_metrics_aggr_fn` should be a function, as FedAvg's, of a "
                    "list of RecordDicts and the name of the metric to weigh by. Found "
                    f"{type(function).__name__}."
                )

    def of_training(self, entries: Sequence[Entry]) -> MetricRecord | None:
        """Return the metrics of the updates that a round has used, late ones included."""
        if self.train is None:
            return mean_metrics((e.update.num_examples, e.metrics) for e in entries)
        records = [_records_of(entry, self.form.examples_key) for entry in entries]
        return self._by("train_metrics_aggr_fn", self.train, records)

    def of_evaluation(self, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the metrics of an evaluation; replies that cannot be taken are left out."""
        taken: list[tuple[RecordDict, tuple[int, dict[str, float]]]] = []
        for message in replies:
            if not message.has_content():
                continue
            try:
                taken.append((message.content, decode_metrics(message.content, self.form)))
            except RefusedReplyError as error:
                node = message.metadata.src_node_id
                logger.warning("The evaluation of node %s is left out: %s", node, error.reason)
        if self.evaluate is None:
            return mean_metrics(measured for _, measured in taken)
        records = [content for content, _ in taken]
        return self._by("evaluate_metrics_aggr_fn", self.evaluate, records)

    def _by(self, name: str, function: MetricsFn, records: list[RecordDict]) -> MetricRecord | None:
        """Call the user's function; what it does wrong costs these metrics and nothing else."""
        if not records:
            return None
        left_out = "The round goes on without these metrics; model and updates are not affected."
        try:
            found: object = function(records, self.form.examples_key)
        except Exception:
            logger.exception("`%s` raised an error. %s", name, left_out)
            return None
        if found is None or isinstance(found, MetricRecord):
            return found
        logger.error(
            "`%s` should return a MetricRecord. Found %s. %s", name, type(found).__name__, left_out
        )
        return None


def _records_of(entry: Entry, examples_key: str) -> RecordDict:
    """Return the records that a client sent with an update, without the arrays.

    An update that was accepted when there was no function has its plain numbers only.
    """
    if entry.records is not None:
        return records_from_json(entry.records)
    numbers = MetricRecord({examples_key: entry.update.num_examples})
    numbers.update(entry.metrics)
    return RecordDict({"metrics": numbers})


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
