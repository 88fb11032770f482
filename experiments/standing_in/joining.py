"""The bound for all methods: no delay, but slow clients join when the first of them can answer.

    python experiments/standing_in/joining.py digits --jobs 2
    python experiments/standing_in/joining.py fashion --staleness 20 --data DIR

Nothing of a slow client can be known before round τ. In these runs of `no_delay` the slow
clients are unavailable until then and take part without delay afterwards, so what they lack
is what the rounds before cost, and nothing else. The curves are added to the result files of
`study.py` as `joins_late`. Options that are not named go to `unstale run`.
"""

import argparse
import json
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import study

from unstale.experiment import parse
from unstale.experiment.run import load_data
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.sim import Scenario

LABEL = "joins_late"


def trace(slow: Sequence[int], staleness: int) -> str:
    """Return the file of absences: slow clients are away until a round.

    Example:
        >>> print(trace([3, 7], staleness=40), end="")
        client,from,to
        3,0,40
        7,0,40
    """
    return "client,from,to\n" + "".join(f"{client},0,{staleness}\n" for client in slow)


def slow_clients(scenario: str, seed: int, data: str | None) -> list[int]:
    """Return the slow clients of a scenario, which do not depend on the staleness."""
    config = parse(tomllib.loads((study.HERE / f"{scenario}.toml").read_text()))
    return Scenario(config.scenario, load_data(config, data), seed).slow


def joined(
    scenario: str, staleness: int, seeds: Sequence[int], options: list[str], data: str | None
) -> dict[str, list[list[float]]]:
    """Return the curve of every seed."""
    found = {}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "absences.csv")
            path.write_text(trace(slow_clients(scenario, seed, data), staleness))
            away = ["--set", "availability.kind=trace", "--set", f"availability.path={path}"]
            runs = study.launch(
                scenario, {LABEL: {}}, staleness, [*away, *options, "--seeds", str(seed)]
            )
            found |= runs[LABEL]
    return found


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("scenario")
    parser.add_argument("--staleness", default=",".join(map(str, study.STALENESS)))
    parser.add_argument("--data")
    parser.add_argument("--results", type=Path, default=study.HERE / "results")
    known, options = parser.parse_known_args()
    given = ["--data", known.data] if known.data else []
    seeds, device = study.seeds_and_device(known.scenario, options)
    about = provenance(seeds, device)
    require_clean(known.results)
    for tau in map(int, known.staleness.split(",")):
        path = known.results / f"{known.scenario}_{tau}.json"
        before = json.loads(path.read_text())
        curves = joined(known.scenario, tau, seeds, [*options, *given], known.data)
        before["commits"][LABEL], before["runs"][LABEL] = about["commit"], curves
        write_result(path, before.pop("about"), before)


if __name__ == "__main__":
    main()
