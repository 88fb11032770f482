"""A run of eight rounds, told to sinks by hand."""

from unstale.run_folder import Lines, Round
from unstale.sinks import Feed, as_sinks

CONFIG = {
    "name": "two-sites",
    "rounds": 8,
    "seeds": [0],
    "evaluate": {"target": 0.8, "window": 1},
    "local": {"lr": 0.1},
    "methods": [{"name": "convert", "label": "convert", "stand_in": True}, {"label": "memory"}],
}


def line(t, **changes):
    """A round: one stale update every three rounds, a refusal in the fourth."""
    stale = int(t % 3 == 0)
    told = {
        "accuracy": t / 10,
        "affected_accuracy": t / 20,
        "loss": 1 / t,
        "arrivals": 3 + stale,
        "stale": stale,
        "staleness": {0: 3, **({4: 1} if stale else {})},
        "refused": {"not_finite": 1} if t == 4 else {},
        "seconds": 0.5,
        **changes,
    }
    return Round(t, **told)


def tell_rounds(folder, sinks, rounds, label="convert", *, finish=False):
    """Run some rounds of a method as an engine does, each line first in the folder."""
    feed = Feed(as_sinks(sinks), folder)
    lines = Lines(folder.lines_path(label, 0))
    lines.path.parent.mkdir(parents=True, exist_ok=True)
    known = {one.number for one in lines.read()}
    for t in rounds:
        if t not in known:
            lines.append(line(t))
        feed.tell(label, 0, line(t))
    if finish:
        feed.finish(label, 0)
    feed.close()
