"""What the page and the PNGs are made from: the run, its summary, its figures and colours."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from unstale.report.figures.classes import (
    ClassAccuracy,
    ClientChart,
    class_accuracy,
    client_chart,
)
from unstale.report.figures.conversions import FateChart, fate_chart, fit_charts
from unstale.report.figures.errors import error_charts
from unstale.report.figures.lines import (
    LineChart,
    accuracy_chart,
    counter_charts,
    overall_chart,
    seconds_chart,
)
from unstale.report.figures.staleness import StalenessChart, staleness_chart
from unstale.report.figures.standing_in import stand_in_charts
from unstale.report.figures.surrogates import Gallery, galleries
from unstale.report.figures.switching import gamma_chart, late_truth_charts
from unstale.report.palette import Style, assign_styles
from unstale.report.records import Run
from unstale.report.summarise import Summary, summarise

Figure = LineChart | ClientChart | StalenessChart | ClassAccuracy | FateChart | Gallery


@dataclass(frozen=True, slots=True)
class Figures:
    """Every figure of a run; None or empty where the run has nothing for it."""

    accuracy: LineChart | None = None
    overall: LineChart | None = None
    clients: ClientChart | None = None
    seconds: LineChart | None = None
    staleness: StalenessChart | None = None
    classes: ClassAccuracy | None = None
    counters: tuple[LineChart, ...] = ()
    standing_in: tuple[LineChart, ...] = ()
    fates: FateChart | None = None
    fit: tuple[LineChart, ...] = ()
    errors: tuple[LineChart, ...] = ()
    gamma: LineChart | None = None
    late_truth: tuple[LineChart, ...] = ()
    surrogates: tuple[Gallery, ...] = ()

    @classmethod
    def of(cls, run: Run) -> "Figures":
        """Compute the figures of a run."""
        return cls(
            accuracy=accuracy_chart(run),
            overall=overall_chart(run),
            clients=client_chart(run),
            seconds=seconds_chart(run),
            staleness=staleness_chart(run),
            classes=class_accuracy(run),
            counters=tuple(counter_charts(run)),
            standing_in=tuple(stand_in_charts(run)),
            fates=fate_chart(run),
            fit=tuple(fit_charts(run)),
            errors=tuple(error_charts(run)),
            gamma=gamma_chart(run),
            late_truth=tuple(late_truth_charts(run)),
            surrogates=tuple(galleries(run)),
        )

    def all(self) -> list[Figure]:
        """Return the figures that are there, in the page's order."""
        found = (
            *(
                self.accuracy,
                self.overall,
                self.clients,
                self.seconds,
                self.staleness,
                self.classes,
            ),
            *self.counters,
            *self.standing_in,
            self.fates,
            *self.fit,
            *(*self.errors, self.gamma, *self.late_truth),
            *self.surrogates,
        )
        return [figure for figure in found if figure is not None]


@dataclass(frozen=True, slots=True)
class Context:
    """All that the page and the PNGs may see."""

    run: Run
    """The run folder, read."""
    summary: Summary
    """Its table of numbers."""
    styles: Mapping[str, Style]
    """Colour and dash by method label."""
    figures: Figures
    """Its charts, as data."""
    plots: Mapping[str, bytes] = field(default_factory=dict)
    """PNGs by figure key, shown in a chart's place where scripts are off."""

    @classmethod
    def of(cls, run: Run) -> "Context":
        """Compute everything from a run; PNGs are drawn from the result."""
        return cls(run, summarise(run), assign_styles(run.methods), Figures.of(run))
