"""Compensators made of compensators."""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.inversion import Surrogate
from unstale.methods.base import Compensator, surrogates_of
from unstale.methods.conversion.prefit import Preparation, Prepares
from unstale.updates import Note, Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class Chain:
    """Applies compensators one after the other; made by `chain`."""

    parts: tuple[Compensator, ...]
    """The compensators, first to last."""

    def __post_init__(self) -> None:
        for part in self.parts:
            if not isinstance(part, Compensator):
                raise ConfigError(
                    "chain: every part should be a compensator (with `lookback`, `init` and "
                    f"`apply`). Found {part!r}."
                )

    @property
    def lookback(self) -> int:
        """The most that any part reads."""
        return max((part.lookback for part in self.parts), default=0)

    def init(self) -> State:
        """Return the parts' memories, in order."""
        return {"parts": [part.init() for part in self.parts]}

    def surrogates(self, state: State) -> dict[str, Surrogate]:
        """Return those of all parts; of two for one client, the later part's."""
        found: dict[str, Surrogate] = {}
        for part, memory in zip(self.parts, state["parts"], strict=True):
            found |= surrogates_of(part, memory)
        return found

    def prepare(self, update: Update, state: State, view: ServerView) -> Preparation | None:
        """Return what the first part that prepares anything does.

        Nothing where a part before it drops the update, or corrects it for a version that
        will have passed.
        """
        for part, memory in zip(self.parts, state["parts"], strict=True):
            if isinstance(part, Prepares):
                return part.prepare(update, memory, view)
            left = part.apply([update], memory, view).updates
            if len(left) != 1 or left[0].delta is not update.delta:
                return None
        return None

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Hand each part the updates that the one before returned."""
        current, states, notes = tuple(updates), [], list[Note]()
        for part, memory in zip(self.parts, state["parts"], strict=True):
            outcome = part.apply(current, memory, view)
            current = outcome.updates
            states.append(outcome.state)
            notes.extend(outcome.notes)
        return Outcome(current, {"parts": states}, tuple(notes))


def chain(*parts: Compensator) -> Chain:
    """Return the compensator that applies `parts` in order.

    Example:
        >>> from unstale.methods import Drop, PolynomialWeight
        >>> chain(Drop(max_staleness=50), PolynomialWeight(a=0.5)).lookback
        0
    """
    return Chain(tuple(parts))
