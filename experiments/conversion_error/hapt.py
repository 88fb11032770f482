"""The table of HAPT, from runs on a GPU and from a log of runs on a CPU."""

import ast
from statistics import fmean

from tables import RESULTS, error

STALENESS = (5, 20, 50, 100)
CURRENT = 140
ON_GPU = {
    "stale": ("stale", ""),
    "128 of its own samples": ("128 of its own samples", ""),
    "default": ("default", "in a run"),
    "the same, 95 % sparse": ("95 % sparse", "in a run"),
    "fitted to 2 updates": ("2 updates", "in a run"),
}
ON_CPU = {
    "**`thorough`** (4 updates), CPU": "thorough",
    "steps of 0.3, constant, up to 50, never anew, CPU": (
        "restart_loss 0, warm_lr 0.3, full_step_loss 0, warm_iterations 50"
    ),
    "default, never anew, CPU": "restart_loss 0",
}


def table() -> str:
    """Return mean errors over five users."""
    lines = ["| way | τ = 5 | 20 | 50 | 100 |", "| --- |" + " --- |" * 4]
    rows = {text: errors_on_gpu(*way) for text, way in ON_GPU.items()}
    rows |= {text: errors_on_cpu(way) for text, way in ON_CPU.items()}
    for text, errors in rows.items():
        cells = [f"{e:.4f}" if e < 0.01 else f"{e:.3f}" for e in errors]
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gains() -> list[float]:
    """Return how many times smaller than the stale update's the error of `thorough` is."""
    both = zip(errors_on_cpu("stale"), errors_on_cpu("thorough"), strict=True)
    return [stale / converted for stale, converted in both]


def errors_on_gpu(way: str, when: str) -> list[float]:
    """Return mean errors of `hapt_h200.json`."""
    return error("hapt", "user", way, when, *map(str, STALENESS))


def errors_on_cpu(way: str) -> list[float]:
    """Return mean errors of `hapt_cpu.txt`, whose lines are a way and errors by base version."""
    for line in (RESULTS / "hapt_cpu.txt").read_text(encoding="utf-8").splitlines():
        name, brace, rest = line.partition(" {")
        if brace and name.strip() == way:
            found = ast.literal_eval("{" + rest)
            return [fmean(found[CURRENT - tau]) for tau in STALENESS]
    raise KeyError(way)
