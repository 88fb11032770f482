"""Draws some methods of a kept run: the accuracy on the affected classes by round.

    python experiments/quickstart/picture.py experiments/quickstart/results/quickstart \
        docs/assets/quickstart.png no_delay unweighted scaled asyn_tiers memory arrivals convert

The report's own plot has every method of a run; with a dozen, most of them lie on each other.
"""

import argparse
import dataclasses
from pathlib import Path

from unstale.files import write_whole
from unstale.report.context import Context
from unstale.report.png.plots import draw_plots
from unstale.report.read import read_run


def main() -> None:
    """Draw the methods that are named, in the order of the run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run folder, or a kept one")
    parser.add_argument("png", type=Path)
    parser.add_argument("methods", nargs="+", help="labels of the run")
    arguments = parser.parse_args()
    run = read_run(arguments.run)
    known = {method.label for method in run.methods}
    if missing := set(arguments.methods) - known:
        parser.error(f"The run should have these methods. It has no {', '.join(sorted(missing))}.")
    shown = tuple(method for method in run.methods if method.label in arguments.methods)
    plots = draw_plots(Context.of(dataclasses.replace(run, methods=shown)))
    write_whole(arguments.png, plots["affected_accuracy"])


if __name__ == "__main__":
    main()
