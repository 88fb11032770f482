"""The cohort of a round: a share of the nodes, drawn as if none of them were busy or away."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unstale.errors import ConfigError
from unstale.flower.grid import LateGrid
from unstale.seeding import numpy_generator
from unstale.server import Server


@dataclass(frozen=True, slots=True)
class Cohort:
    """How many nodes take part in a round; the fields are arguments of Flower's FedAvg.

    Example:
        >>> Cohort(fraction_train=0.5).size_of_training(connected=10)
        5
    """

    fraction_train: float = 1.0
    """The share of the nodes drawn to train in each round. Idle ones are asked; of those that
    work or have left, the method may use what it knows (`convert`, `memory`)."""
    fraction_evaluate: float = 0.0
    """The share that evaluates after each round; 0 for no evaluation on nodes."""
    min_train_nodes: int = 2
    """The fewest nodes asked to train, if so many are idle."""
    min_evaluate_nodes: int = 2
    """The fewest nodes asked to evaluate, if so many are idle."""
    min_available_nodes: int = 2
    """How many nodes must be connected, idle or not, before a round begins."""

    def __post_init__(self) -> None:
        for name, least in (("fraction_train", "above 0"), ("fraction_evaluate", "at least 0")):
            value = getattr(self, name)
            plain = isinstance(value, int | float) and not isinstance(value, bool)
            if not plain or not 0 <= value <= 1 or (value == 0 and least == "above 0"):
                raise ConfigError(
                    f"`{name}` should be a number {least} and at most 1. Found {value!r}. "
                    "Give the share of the nodes, such as 0.1."
                )
        for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"`{name}` should be a whole number of at least 1. Found {value!r}."
                )

    @property
    def evaluates(self) -> bool:
        """Whether nodes are asked to evaluate at all."""
        return self.fraction_evaluate > 0

    def size_of_training(self, connected: int) -> int:
        """Return how many nodes are drawn for a round of training."""
        return max(int(connected * self.fraction_train), self.min_train_nodes)

    def size_of_evaluation(self, connected: int) -> int:
        """Return how many nodes an evaluation asks."""
        return max(int(connected * self.fraction_evaluate), self.min_evaluate_nodes)


def draw(nodes: Sequence[int], size: int, seed: int, purpose: str, version: int) -> list[int]:
    """Return `size` of the nodes, or all if there are fewer; the same for the same arguments.

    Example:
        >>> draw([3, 2**63 + 1, 7], 5, seed=0, purpose="train", version=0)
        [3, 7, 9223372036854775809]
    """
    ordered = sorted(nodes)
    if size >= len(ordered):
        return ordered
    # Positions are drawn, never ids: NumPy would make floats of unsigned 64-bit numbers.
    places = numpy_generator(seed, "cohort", purpose, version).choice(
        len(ordered), size, replace=False
    )
    return [ordered[place] for place in sorted(int(place) for place in places)]


class Drawn(NamedTuple):
    """The cohort of a round."""

    asked: list[int]
    """The nodes that get a message."""
    absent: list[int]
    """The nodes that were drawn as well but work or have left."""


def nodes_to_train(cohort: Cohort, grid: LateGrid, server: Server, round: int) -> Drawn:
    """Wait until enough nodes are connected and draw the cohort of a round.

    It is drawn from the connected nodes, those at work, and those that have left but that the
    method would stand in for. If too few of it are idle, other idle nodes are asked as well.
    """
    connected = grid.wait_for_nodes(cohort.min_available_nodes)
    idle, busy, book = {*grid.idle_nodes()}, grid.busy_nodes(), grid.book
    # In a round that a process died in, who has answered was asked by it. So it counts as idle
    # here, as it did there: the cohort is the same, and it is not asked a second time.
    before = book.asked()
    at_work = (busy | book.occupied(round)) - before
    idle = (idle | before) - at_work
    left = {int(client) for client in server.stands_in_for()}
    pool = idle | at_work | {*connected} | left
    size = cohort.size_of_training(len(pool))
    drawn = {*draw([*pool], size, server.seed, "train", server.version)}
    asked = drawn & idle
    asked |= _others(cohort, grid, server, asked, idle)
    return Drawn(sorted(asked - before), sorted(drawn - idle))


def _others(
    cohort: Cohort, grid: LateGrid, server: Server, asked: set[int], idle: set[int]
) -> set[int]:
    """Return the idle nodes that are asked although they were not drawn. Usually none.

    There are at least `min_train_nodes`, and one of them is fast, as far as such nodes are
    idle: a round should not wait for a slow node only because busy ones were drawn.
    """
    others, missing = idle - asked, cohort.min_train_nodes - len(asked)
    found = {*_draw_more(others, missing, server, "train, too few")}
    if not any(map(grid.is_fast, asked | found)):
        found |= {*_draw_more(filter(grid.is_fast, others), 1, server, "train, none fast")}
    return found


def _draw_more(nodes: Iterable[int], size: int, server: Server, purpose: str) -> list[int]:
    return draw([*nodes], max(0, size), server.seed, purpose, server.version)


def nodes_to_evaluate(cohort: Cohort, grid: LateGrid, server: Server) -> list[int]:
    """Return the nodes that are asked to evaluate."""
    size = cohort.size_of_evaluation(len(grid.get_node_ids()))
    return draw(grid.idle_nodes(), size, server.seed, "evaluate", server.version)
