"""Watched runs in the terminal: a table for each, kept short enough for the screen."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from unstale.reproduce.remaining import duration
from unstale.watch import PartState, RunState
from unstale.watch.words import state_in_words

_COLOURS = {"running": "green", "quiet": "yellow"}
# Lines of a run's view besides the rows of its table.
_AROUND = 8
# What is counted, where there is any, and how it is headed: 80 characters have to do.
_COUNTS = (
    ("arri-\nvals", "arrivals"),
    ("stale", "stale"),
    ("con-\nverted", "conversions"),
    ("stood\nin", "stand_ins"),
    ("re-\nfused", "refused"),
)


def view(states: Sequence[RunState], height: int = 0) -> RenderableType:
    """Return what a terminal shows of runs.

    Args:
        states: How far they are.
        height: Lines of the terminal; 0 for as many as it takes.
    """
    rows = max(3, (height - 1) // len(states) - _AROUND) if height else 0
    return Group(*(_of_run(state, rows) for state in states))


def plain_lines(state: RunState) -> list[str]:
    """Return what a log shows of a run: a line for it and for each method and seed at work."""
    lines = [state_in_words(state)]
    for part in state.parts:
        if part.is_at_work:
            scores = f"accuracy {_score(part.accuracy)} affected {_score(part.affected_accuracy)}"
            lines.append(f"  {part.label} seed {part.seed} round {_rounds(part)} {scores}")
    return lines


def _of_run(state: RunState, rows: int) -> RenderableType:
    # As it is: a path or a title may hold brackets.
    head = Text(state_in_words(state), style=_COLOURS.get(state.status, ""))
    if not state.parts:
        return head
    shown = _most_telling(state.parts, rows)
    lines: list[RenderableType] = [Text(state.title, style="bold"), _table(shown)]
    if left := len(state.parts) - len(shown):
        done = sum(part.is_done for part in state.parts if part not in shown)
        words = [f"{done} done"] if done else []
        words += [f"{left - done} waiting"] if left > done else []
        lines.append(Text(f"and {' and '.join(words)}", style="dim"))
    if not state.planned:
        return Group(*lines, head)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=state.planned, completed=state.rounds, width=16), head)
    return Group(*lines, bar)


def _most_telling(parts: Sequence[PartState], rows: int) -> list[PartState]:
    """Return the parts to show, in their order: those under way, then done, then waiting."""
    if not rows or len(parts) <= rows:
        return list(parts)

    def rank(at: int) -> tuple[int, int]:
        part = parts[at]
        if part.rounds and not part.is_done:
            return 0, at
        # Of the done the last ones, of the waiting the next ones.
        return (1, -at) if part.is_done else (2, at)

    return [parts[at] for at in sorted(sorted(range(len(parts)), key=rank)[:rows])]


def _table(parts: Sequence[PartState]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), min_width=40
    )
    counts = [(title, key) for title, key in _COUNTS if any(getattr(p, key) for p in parts)]
    longest = max(len(part.label) for part in parts)
    table.add_column("method", overflow="ellipsis", no_wrap=True, min_width=min(longest, 16))
    titles = ("seed", "round", "accu-\nracy", "affec-\nted", *(title for title, _ in counts))
    for title in (*titles, "last\nline"):
        table.add_column(title, justify="right", no_wrap=True)
    for part in parts:
        cells = [part.label, str(part.seed)]
        if not part.rounds:
            table.add_row(*cells, "waiting", style="dim")
            continue
        cells += [_rounds(part), _score(part.accuracy), _score(part.affected_accuracy)]
        cells += [str(getattr(part, key) or "") for _, key in counts]
        cells.append("done" if part.is_done else duration(part.age or 0.0))
        table.add_row(*map(Text, cells))
    return table


def _rounds(part: PartState) -> str:
    return f"{part.rounds}/{part.planned}" if part.planned else str(part.rounds)


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
