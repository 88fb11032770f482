"""A state in a sentence, as the terminal and the page show it."""

from unstale.reproduce.remaining import in_words
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
    age = age_in_words(state.age)
    if state.status == "quiet":
        return f"{said}; nothing new for {age}: it may have been stopped"
    return f"{said}; last line {age} ago"


def age_in_words(seconds: float | None) -> str:
    """Return a time in few characters.

    Example:
        >>> age_in_words(0.4), age_in_words(75), age_in_words(600), age_in_words(9000)
        ('0 s', '75 s', '10 min', '2.5 h')
    """
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
