"""Learning-rate schedules of the solver, by name: factors that begin at 1.

A registry of its own because the settings check names against it; cuts on a plateau
(`Inversion.max_lr_cuts`) come on top.
"""

import math
from collections.abc import Callable

from unstale.errors import UnknownNameError

# (iteration, iterations) -> what the learning rate is multiplied by
Schedule = Callable[[int, int], float]


def constant(iteration: int, iterations: int) -> float:
    """Return 1."""
    return 1.0


def cosine(iteration: int, iterations: int) -> float:
    """Return half a cosine from 1 down to almost 0."""
    return 0.5 * (1 + math.cos(math.pi * iteration / iterations))


def paper(iteration: int, iterations: int) -> float:
    """Return a tenth of it from each of 3/8, 5/8 and 7/8 of the iterations on."""
    passed = sum(iteration >= share * iterations for share in (3 / 8, 5 / 8, 7 / 8))
    return float(0.1**passed)


SCHEDULES: dict[str, Schedule] = {"constant": constant, "cosine": cosine, "paper": paper}


def schedule_of(name: str) -> Schedule:
    """Return the schedule of that name."""
    if name not in SCHEDULES:
        raise UnknownNameError("Inversion: `schedule`", name, SCHEDULES)
    return SCHEDULES[name]
