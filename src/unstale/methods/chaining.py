"""`chain`: compensators applied one after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.methods.absence import still_absent
from unstale.methods.base import Compensator
from unstale.methods.watching import watched
from unstale.updates import Note, Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class Chain:
    """Applies compensators one after the other; made by `chain`."""

    compensators: tuple[Compensator, ...]
    """The compensators, first to last."""

    def __post_init__(self) -> None:
        for part in self.compensators:
            if not isinstance(part, Compensator):
                raise ConfigError(
                    "chain: every part should be a compensator (with `lookback`, `init` and "
                    f"`apply`). Found {part!r}."
                )

    @property
    def lookback(self) -> int:
        """The largest lookback of any part."""
        return max((part.lookback for part in self.compensators), default=0)

    def init(self) -> State:
        """Return the states of the parts, in order."""
        return {"parts": [part.init() for part in self.compensators]}

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return the parts, each with its state."""
        return list(zip(self.compensators, state["parts"], strict=True))

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield parts up to the first one that drops the update or changes its delta."""
        for part, memory in self.parts(state):
            yield part, memory
            left = part.apply([update], memory, view).updates
            if len(left) != 1 or left[0].delta is not update.delta:
                return

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Apply each part to the updates that the one before returned."""
        current, states, notes = tuple(updates), [], list[Note]()
        for part, memory in self.parts(state):
            outcome = part.apply(current, memory, still_absent(view, current))
            current = outcome.updates
            states.append(outcome.state)
            notes.extend(outcome.notes)
        return Outcome(current, {"parts": states}, tuple(notes))

    def watch(self, updates: Sequence[Update], state: State, view: ServerView) -> State:
        """Show updates that pass by to each part, as the clients sent them."""
        parts = self.parts(state)
        return {"parts": [watched(part, updates, memory, view) for part, memory in parts]}


def chain(*compensators: Compensator) -> Chain:
    """Return a compensator that applies the given ones in order.

    Example:
        >>> from unstale.methods import Drop, PolynomialWeight
        >>> chain(Drop(max_staleness=50), PolynomialWeight(a=0.5)).lookback
        0
    """
    return Chain(tuple(compensators))
