"""A state in a sentence, as the terminal and the page show it."""

from unstale.reproduce.remaining import duration, in_words
from unstale.watch.state import RunState


def state_in_words(state: RunState) -> str:
    """Return what a run does, in a sentence.

    Example:
        >>> from pathlib import Path
        >>> state_in_words(RunState(Path("runs/a"), "waiting"))
        'runs/a: no such folder yet; waiting for a run to begin'
    """
    where = str(state.folder)
    if state.status == "waiting":
        what = "no run in it" if state.folder.is_dir() else "no such folder"
        return f"{where}: {what} yet; waiting for a run to begin"
    if state.fault:
        return f"{where}: {state.fault}"
    if state.status == "starting":
        return f"{where}: begun, no round is done yet"
    done = f"{state.rounds:,} rounds"
    if state.planned:
        done = f"{state.rounds:,} of {state.planned:,} rounds, {state.rounds / state.planned:.0%}"
    if state.status == "ended":
        return f"{where}: ended; {done}"
    said = f"{where}: {done}"
    if state.seconds_left is not None:
        said += f"; {in_words(state.seconds_left)}"
    age = duration(state.age or 0.0)
    if state.status == "quiet":
        return f"{said}; nothing new for {age}: it may have been stopped"
    return f"{said}; last line {age} ago"
