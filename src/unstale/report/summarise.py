"""The numbers of the summary table, and what they say in one sentence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from unstale.report.nodes import count_late
from unstale.report.parse import parse_summary
from unstale.report.records import Method, MethodSummary, Run
from unstale.run_folder.summary import FAULTS, TIMES, figures, over_seeds, with_savings

# Losses below this are not worth a word: half of the last digit that is shown.
_VISIBLE = 0.005


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run, from its own file or, provisionally, from its rounds."""

    methods: Mapping[str, MethodSummary]
    """By label; methods without any evaluated round are absent."""
    provisional: bool
    """Whether it was computed here because the run has not written its own."""

    def value(self, method: Method, metric: str) -> float | None:
        """Return one number of the table, or None where there is none."""
        row = self.methods.get(method.label)
        return row.values.get(metric) if row else None

    def spread(self, method: Method, metric: str) -> float | None:
        """Return its standard deviation over seeds, or None where there is none."""
        row = self.methods.get(method.label)
        return row.spread.get(metric) if row else None


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding as text with method labels apart, so that a page can style those."""

    lead: str
    """What comes before the first label."""
    clauses: tuple[tuple[str, str], ...] = ()
    """A label and what is said of it, each."""

    @property
    def text(self) -> str:
        """The whole sentence as plain text."""
        told = "; ".join(f"{label} {said}" for label, said in self.clauses)
        return f"{self.lead}{told}." if told else self.lead


def summarise(run: Run) -> Summary:
    """Return the run's own summary, or a provisional one from the rounds that are there.

    A summary of before has another measure of time: that is computed from the rounds, too.
    """
    if run.summary is None:
        return Summary(_from_rounds(run), provisional=True)
    if all(found.knows_time for found in run.summary.values()):
        return Summary(run.summary, provisional=False)
    computed = _from_rounds(run)
    return Summary(
        {
            label: _with_time(found, computed[label]) if label in computed else found
            for label, found in run.summary.items()
        },
        provisional=False,
    )


def _from_rounds(run: Run) -> dict[str, MethodSummary]:
    target = math.inf if run.target is None else run.target
    methods = {}
    for label in run.rounds:
        per_seed = {
            seed: figures(rounds, run.reached(label), target, run.window)
            for seed, rounds in run.counted(label).items()
        }
        if per_seed:
            methods[label] = over_seeds(per_seed)
    summaries = with_savings(methods, run.reference)
    return {label: parse_summary(found) for label, found in summaries.items()}


def _with_time(found: MethodSummary, computed: MethodSummary) -> MethodSummary:
    """Return a summary of before with the figures of time and faults that its rounds give."""
    more = (*TIMES, *FAULTS)
    return MethodSummary(
        values={**found.values, **{name: computed.values[name] for name in more}},
        spread={**found.spread, **{name: computed.spread[name] for name in more}},
        seeds=computed.seeds,
    )


def find(run: Run, summary: Summary) -> Finding:
    """Say in one sentence what the delay costs, by method.

    The loss is that of affected-class accuracy, averaged over the second half of
    the rounds, against the method without delay; without such a method the
    accuracies themselves are told. Where nobody says which classes are affected, it is
    the accuracy in all of them. Of an unfinished run only those methods are told that went
    through all rounds under some seed, since the rest cannot be compared yet; a method
    that is alone need not be compared.
    """
    metric, name = (
        ("affected_mean", "affected-class accuracy")
        if run.knows_affected
        else ("accuracy", "accuracy")
    )
    alone = len(run.methods) == 1
    told_of = [
        (method, value)
        for method in run.methods
        if (run.finished or run.is_through(method) or alone)
        and (value := summary.value(method, metric)) is not None
    ]
    scored = [(method, value) for method, value in told_of if not method.is_oracle]
    if not scored:
        return Finding(_nothing(run))
    ceiling = next((value for method, value in told_of if method.is_oracle), None)
    chosen = _worth_telling(sorted(scored, key=lambda pair: -pair[1]))
    if ceiling is None:
        told = [(method.label, f"reaches {value:.2f}") for method, value in chosen]
        label, said = told[0]
        told[0] = (label, f"{said} in {name}")
    else:
        told = [(method.label, _loss(ceiling - value)) for method, value in chosen]
        label, said = told[0]
        told[0] = (label, f"{said} of {name} against no delay")
    last = max(run.reached(method.label) for method, _ in chosen) if alone else run.last_round
    share = 1 / 2 if metric == "affected_mean" else 4 / 5
    return Finding(_lead(run, math.floor(last * share) + 1, last), tuple(told))


def _worth_telling(ranked: list[tuple[Method, float]]) -> list[tuple[Method, float]]:
    """Keep at most three: the best, the plain one (or the middle one), the worst."""
    if len(ranked) <= 3:
        return ranked
    inner = ranked[1:-1]
    plain = [pair for pair in inner if pair[0].name == "unweighted"]
    return [ranked[0], (plain or [inner[len(inner) // 2]])[0], ranked[-1]]


def _loss(loss: float) -> str:
    if abs(loss) < _VISIBLE:
        return "loses nothing"
    return f"loses {loss:.2f}" if loss > 0 else f"gains {-loss:.2f}"


def _nothing(run: Run) -> str:
    """Say why nothing can be told of accuracy."""
    if run.nodes:
        yet = "was not evaluated" if run.finished else "has not been evaluated yet"
        return f"The model {yet}: with an evaluate_fn this page tells what the delay costs."
    return "No method has gone through all rounds yet."


def _lead(run: Run, first: int, last: int) -> str:
    """Say over which rounds the means are, and how late clients were."""
    over = f"Over rounds {first} to {last}" if first < last else f"In round {last}"
    late = late_by(run)
    if late:
        return f"{over}, with slow clients {late} late, "
    _, late = count_late(run.nodes)
    return (
        f"{over}, with replies up to {late.rpartition(' to ')[2]} late, " if late else f"{over}, "
    )


def late_by(run: Run) -> str:
    """Return how late slow clients are, such as "40 rounds" or "10 to 40 rounds"."""
    found = [
        client.latency
        for scenario in run.scenarios.values()
        for client in scenario.clients
        if client.slow and client.latency > 0
    ]
    if not found:
        return ""
    low, high = math.floor(min(found)), math.ceil(max(found))
    unit = "round" if high == 1 else "rounds"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
