"""The settings of a run in words, as the ServerApp's log begins with them."""

from collections.abc import Iterator
from pathlib import Path

from unstale.flower.close_policy import ClosePolicy
from unstale.flower.cohort import Cohort
from unstale.methods import Plain
from unstale.server import ServerSettings
from unstale.training import LocalSpec


def settings_in_words(
    server: ServerSettings, cohort: Cohort, close: ClosePolicy, folder: Path | None
) -> Iterator[str]:
    """Yield what a run does, a line for each part.

    Example:
        >>> settings = ServerSettings("convert", LocalSpec(lr=0.1, epochs=5))
        >>> for line in settings_in_words(settings, Cohort(), ClosePolicy(0.8, 60), None):
        ...     print(line)
        Method: convert
        Clients train, as the server assumes: 5 epochs of full-batch sgd, learning rate 0.1
        Asked in a round: all nodes, once 2 are connected
        A round closes when 80 % of the fast nodes asked have answered, after 60 s at the latest
        Run folder: none, so nothing can be resumed
    """
    yield f"Method: {server.chosen.name}"
    if server.chosen_optimizer != Plain():
        yield f"Server optimizer: {server.chosen_optimizer}"
    yield f"Clients train, as the server assumes: {_recipe(server.local)}"
    share = f"{100 * cohort.fraction_train:.3g} % of the" if cohort.fraction_train < 1 else "all"
    yield f"Asked in a round: {share} nodes, once {cohort.min_available_nodes} are connected"
    yield f"A round closes when {_closing(close)}"
    yield f"Run folder: {folder or 'none, so nothing can be resumed'}"


def _recipe(local: LocalSpec) -> str:
    length = _counted(local.steps, "step") if local.steps else _counted(local.epochs or 1, "epoch")
    batch = "full-batch " if local.batch_size is None else ""
    told = [f"{length} of {batch}{local.optimizer}", f"learning rate {local.lr:g}"]
    if local.batch_size is not None:
        told.append(f"batches of {local.batch_size}")
    for name in ("momentum", "weight_decay", "prox"):
        if value := getattr(local, name):
            told.append(f"{name.replace('_', ' ')} {value:g}")
    return ", ".join(told)


def _closing(close: ClosePolicy) -> str:
    share = "all" if close.fraction == 1 else f"{100 * close.fraction:.3g} % of the"
    fewest = f" and {close.min_replies} replies are there" if close.min_replies > 1 else ""
    last = "" if close.deadline is None else f", after {close.deadline:g} s at the latest"
    return f"{share} fast nodes asked have answered{fewest}{last}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
