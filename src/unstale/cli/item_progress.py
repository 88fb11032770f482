"""Progress of an item: which of its runs is under way, and the time that all of them take."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.text import Text

from unstale.cli.progress import LiveProgress
from unstale.reproduce.remaining import TimeLeft, in_words
from unstale.run_folder import Round

if TYPE_CHECKING:
    from unstale.reproduce import Item


class LiveItemProgress(LiveProgress):
    """Shows a run's methods, its place among the item's runs, and the time left for all."""

    def __init__(self, console: Console, item: "Item", jobs: int = 1) -> None:
        super().__init__(console)
        self.item = item
        self._jobs = jobs
        self._parts: Sequence[str] = ()
        self._left = TimeLeft({})
        self._at = 0

    def plan(self, parts: Sequence[str], rounds: dict[str, int]) -> None:
        """Say what is about to run."""
        self._parts, self._left = parts, TimeLeft(rounds, self._jobs)
        total = sum(rounds.values())
        self._say(
            f"{self.item.name}: {self.item.title}. {len(parts)} runs, {total:,} rounds in all"
        )

    def part(self, name: str, *, done: bool) -> None:
        """Say which run begins, or was done before."""
        self._end()
        head = name.partition(",")[0]
        self._at = self._parts.index(head) + 1
        state = "done before" if done else in_words(self._left.seconds())
        self._say(f"run {self._at} of {len(self._parts)}: {name}{f'; {state}' if state else ''}")

    def advance(self, label: str, seed: int, line: Round) -> None:
        """Take note of a round."""
        self._left.advance(label, line.seconds)
        super().advance(label, seed, line)

    def _line_end(self) -> str:
        place = f"{self.item.name}, run {self._at} of {len(self._parts)}"
        left = in_words(self._left.seconds())
        return f" ({place}: {left})" if left else f" ({place})"

    def _view(self) -> Group:
        return Group(super()._view(), Text(self._line_end().strip(" ()")))
