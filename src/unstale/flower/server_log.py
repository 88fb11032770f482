"""Progress in the server's log: a line for each round, and lines for what needs attention."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from unstale.flower.round_line import printable
from unstale.run_folder import Round
from unstale.run_folder.schema import Converted, Nodes

logger = logging.getLogger(__name__)

# Entries of one kind in a round; the rest is counted. Everything is in the JSON lines.
MAX_TOLD = 5

# A level of `logging` and a text.
Line = tuple[int, str]


def join_flowers_log(own: str = "unstale", flowers: str = "flwr") -> None:
    """Let what Unstale logs appear where Flower's own log does, unless the app set up logging.

    Flower prints what its own logger is told and nothing else, so progress would be lost.

    Args:
        own: The name of our logger.
        flowers: The name of Flower's.
    """
    ours, handlers = logging.getLogger(own), logging.getLogger(flowers).handlers
    if ours.hasHandlers() or not handlers:
        return
    for handler in handlers:
        ours.addHandler(handler)
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.INFO)


def log_round(line: Round, rounds: int) -> None:
    """Log what happened in a round."""
    for level, text in log_lines(line, rounds):
        logger.log(level, "%s", text)


def log_lines(line: Round, rounds: int) -> list[Line]:
    """Return what to log of a round's line: what happened first, then what needs attention.

    Example:
        >>> nodes = Nodes(answered=("7", "8", "9"), late={"8": 2}, working={"5": 1})
        >>> line = Round(3, seconds=4.21, changed=True, accuracy=0.9, nodes=nodes)
        >>> for _, text in log_lines(line, rounds=50):
        ...     print(text)
        Round 3 of 50: 3 nodes answered in 4.2 s, 1 of them late; 1 still works; accuracy 0.900
          answered: 7, 8, 9
          late: 8 by 2 rounds
          still working: 5 for 1 round
    """
    nodes = line.nodes or Nodes()
    return [(logging.INFO, _summary(line, nodes, rounds)), *_who(nodes), *_what(line, nodes)]


def _summary(line: Round, nodes: Nodes, rounds: int) -> str:
    answered, late, working = len(nodes.answered), len(nodes.late), len(nodes.working)
    of = f" of {rounds}" if rounds else ""
    text = f"Round {line.number}{of}: {_counted(answered, 'node')} answered in {line.seconds:.1f} s"
    text += f", {late} of them late" if late else ""
    text += f"; {working} still work{'s' if working == 1 else ''}" if working else ""
    text += f"; {len(line.stand_ins)} stood in for" if line.stand_ins else ""
    if line.awaiting_fit:
        text += f"; {_counted(line.awaiting_fit, 'update')} awaiting fit"
    scores = (
        ("accuracy", line.accuracy),
        ("affected classes", line.affected_accuracy),
        ("loss", line.loss),
    )
    told = [f"{name} {value:.3f}" for name, value in scores if value is not None]
    return "; ".join([text, *([", ".join(told)] if told else [])])


def _who(nodes: Nodes) -> list[Line]:
    found = {
        "answered": [printable(node) for node in nodes.answered],
        "late": [f"{node} by {_counted(n, 'round')}" for node, n in _longest(nodes.late)],
        "still working": [
            f"{node} for {_counted(n, 'round')}" if n else f"{node} since this round"
            for node, n in _longest(nodes.working)
        ],
    }
    return [
        (logging.INFO, f"  {key}: {_listed(entries)}") for key, entries in found.items() if entries
    ]


def _longest(nodes: Mapping[str, int]) -> list[tuple[str, int]]:
    ordered = sorted(nodes.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(printable(node), rounds) for node, rounds in ordered]


def _what(line: Round, nodes: Nodes) -> list[Line]:
    converted = [
        f"{printable(one.client)} from version {one.base_version} ({_fit(one)})"
        for one in line.converted
    ]
    told = [(logging.INFO, f"  converted: {_listed(converted)}")] if converted else []
    stood_in = [
        f"{printable(one.client)} (age {one.age}, weight {one.weight:.2f})"
        for one in line.stand_ins
    ]
    told += [(logging.INFO, f"  stood in for: {_listed(stood_in)}")] if stood_in else []
    gamma = [
        f"{printable(client)} (share of the estimate {share:.2f})"
        for client, share in line.gamma.items()
    ]
    told += (
        [(logging.INFO, f"  switching back to stale updates: {_listed(gamma)}")] if gamma else []
    )
    told += _each(
        "  fell back: ",
        (f"{printable(one.client)}: {printable(one.reason, 200)}" for one in line.fell_back),
    )
    told += _each(
        "  refused: ",
        (f"{one.node}, {printable(one.code)}: {one.reason}" for one in nodes.refusals),
        sum(line.refused.values()),
    )
    told += _each("  another recipe: ", (one.says for one in line.other_recipes))
    if line.notes.get("discarded"):
        told.append((logging.WARNING, "  the round's result was not finite and was discarded"))
    elif not line.changed:
        told.append((logging.WARNING, "  no update could be used: the weights stay as they are"))
    return told


def _fit(one: Converted) -> str:
    loss = "unknown" if one.loss is None else f"{one.loss:.4g}"
    start = "warm" if one.warm else "cold"
    share = "" if one.share is None else f", share {one.share:.2f}"
    return f"loss {loss}, {_counted(one.iterations, 'iteration')}, {start} start{share}"


def _each(start: str, entries: Iterable[str], total: int = 0) -> list[Line]:
    """Return a warning for each entry, and one for those that are too many."""
    every = list(entries)
    told = [(logging.WARNING, start + entry) for entry in every[:MAX_TOLD]]
    if (more := max(total, len(every)) - len(told)) > 0:
        told.append((logging.WARNING, f"{start}{more} more"))
    return told


def _listed(entries: Sequence[str]) -> str:
    more = len(entries) - MAX_TOLD
    return ", ".join([*entries[:MAX_TOLD], *([f"{more} more"] if more > 0 else [])])


def _counted(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
