"""A LateGrid on a pretended Grid, and rounds on it in one line."""

from pretend_grid import BIG, PretendClock, PretendGrid, message

from unstale.flower.close_policy import ClosePolicy
from unstale.flower.grid import LateGrid

A, B, C = BIG + 1, BIG + 3, 2**64 - 1


def world(seconds, close=ClosePolicy(), **options):  # noqa: B008
    """A clock, the grid below and the LateGrid on it."""
    clock = PretendClock()
    grid = PretendGrid(clock, seconds)
    return clock, grid, LateGrid(grid, close, clock=clock, **options)


def train(late, *nodes, version=None, **options):
    """Make a round and return the nodes whose answers came out, with their lateness."""
    replies = late.train_round([message(node, version=version) for node in nodes], **options)
    return {
        late.arrival_of(r).ticket.node_id: late.arrival_of(r).rounds_late
        for r in replies
        if r.has_content()
    }


def outcomes(late, replies):
    return {late.arrival_of(r).ticket.node_id: late.arrival_of(r).outcome for r in replies}
