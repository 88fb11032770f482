"""`ConversionCheck`: what a check has measured, with its verdict, as text and as JSON."""

import dataclasses
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unstale.check.figures import Figures, figures_of, has_failed
from unstale.check.trial import Measured
from unstale.check.verdict import Verdict, Word, judge

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 100


@dataclass(frozen=True, slots=True)
class ConversionCheck:
    """What `check_conversion` has found; `print` shows it as a table with the verdict."""

    measured: tuple[Measured, ...]
    """Every conversion."""
    staleness: int
    """By how many versions updates were late."""
    clients: int
    """The number of clients, slow ones included."""
    device: str = "cpu"
    """Where it ran."""
    random_data: bool = False
    """Whether the data was random."""
    thorough: bool = False
    """Whether the settings were those of the preset `thorough`."""
    title: str = ""
    """What was checked, for the table."""

    @property
    def first(self) -> Figures:
        """The means over each slow client's first conversion."""
        return figures_of([m for m in self.measured if m.arrival == 0])

    @property
    def in_run(self) -> Figures:
        """The means over all later conversions, which start from an earlier surrogate."""
        return figures_of([m for m in self.measured if m.arrival > 0])

    @property
    def failures(self) -> tuple[str, ...]:
        """Why conversions failed: one reason for each that did."""
        return tuple(
            str(m.detail.get("reason", "it was not converted"))
            for m in self.measured
            if has_failed(m)
        )

    @property
    def verdict(self) -> Word:
        """`helps`, `helps a little`, `does not help`, `harms` or `does not work`.

        The first four say how large the error (cosine distance) of later conversions is as a
        share of the stale updates': at most 1/3, 0.8, 1.05, or more. Conversion does not
        work where most fits fail, or where there is nothing to compare with.
        """
        return self._judged().word

    @property
    def sentences(self) -> tuple[str, ...]:
        """The reasons for the verdict with their figures, and what to do."""
        return self._judged().sentences

    def _judged(self) -> Verdict:
        return judge(
            self.first,
            self.in_run,
            self.failures,
            staleness=self.staleness,
            device=self.device,
            random_data=self.random_data,
            thorough=self.thorough,
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as values that JSON has; null for what is not a number."""
        found = {
            "title": self.title,
            "verdict": self.verdict,
            "sentences": list(self.sentences),
            "staleness": self.staleness,
            "clients": self.clients,
            "device": self.device,
            "random_data": self.random_data,
            "first": _figures_json(self.first),
            "in_run": _figures_json(self.in_run),
            "failures": list(self.failures),
            "conversions": [dataclasses.asdict(m) for m in self.measured],
        }
        plain: dict[str, Any] = _plain(found)
        return plain

    def render(self) -> "RenderableType":
        """Return the table and the verdict for a `rich` console."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        data = ", random data" if self.random_data else ""
        about = f"{self.clients} clients, {self.staleness} versions late{data}, on {self.device}"
        table = Table(
            title=Text(f"{self.title}: {about}" if self.title else about),
            caption="cosine, L1, L2: distances from the true update; norm: share of its size",
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),  # it fits into 80 characters
        )
        for column in ("update", "number", "cosine", "L1", "L2", "norm", "seconds", "failed"):
            table.add_column(column, justify="left" if column == "update" else "right")
        for row in self._rows():
            table.add_row(*row)
        head = Text(f"Conversion {self.verdict}.", style="bold")
        return Group(table, head, *(Text(sentence) for sentence in self.sentences))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for name, figures in (("first", self.first), ("in a run", self.in_run)):
            cost = (f"{figures.seconds:.2g}", str(figures.failed))
            for kind, errors, more in (
                ("stale", figures.stale, ("", "")),
                ("converted", figures.converted, cost),
                ("trained again", figures.again, ("", "")),
                ("half its data", figures.half, ("", "")),
            ):
                if errors is None:
                    continue
                values = (errors.cosine, errors.l1, errors.l2, errors.norms)
                cells = (f"{value:.3f}" for value in values)
                yield (f"{name}, {kind}", str(figures.conversions), *cells, *more)

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=WIDTH, color_system=None).print(self.render())
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _figures_json(figures: Figures) -> dict[str, Any]:
    ratios = {name: getattr(figures, name) for name in ("ratio", "l1_ratio", "l2_ratio")}
    return {**dataclasses.asdict(figures), **ratios}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
