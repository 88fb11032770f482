"""Seconds per round on Flower: Unstale beside FedAvg, and with conversions beside without.

Flower's simulation, 100 nodes, 10 a round, 20 of them slow (their replies are held back 5
to 15 rounds). All contestants work on one grid in one ServerApp and take turns, a block of
rounds each, and the best block counts, because machines are shared. A block ends when all
work that was handed out in it is done, so nobody's work falls into another one's time.

    python benchmarks/flower_rounds.py [--blocks 5] [--block 8] [--json FILE]

Everything stays on this machine: Flower and Ray run offline in a home folder of their own.
"""

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flower_contestants import (
    NODES,
    PER_ROUND,
    SLOW,
    Setting,
    lateness,
    partitions_of,
    with_conversions,
    without_conversions,
)
from flower_nodes import client_app
from flower_turns import Contestant, take_turns
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from unstale.run_folder.provenance import provenance, require_clean, write_result


def measure(grid: Grid, chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the tables that were asked for."""
    late = lateness(partitions_of(grid))
    rounds = chosen.block * (chosen.blocks + 1)
    found: dict[str, Any] = {}
    for part in chosen.parts.split(","):
        task = "mlp" if part == "conversions" else "lenet"
        with ExitStack() as stack, tempfile.TemporaryDirectory() as place:
            setting = Setting(grid, late, task, chosen.block, rounds, Path(place))
            contestants = (
                with_conversions(setting, stack)
                if part == "conversions"
                else without_conversions(setting)
            )
            take_turns(contestants, chosen.blocks)
            found[part] = {
                c.name: summary(c, setting.folder(c.name), chosen.block) for c in contestants
            }
    return found


def summary(contestant: Contestant, folder: Path, block: int) -> dict[str, Any]:
    """Return the best block and the median one, the first left out."""
    blocks = contestant.blocks[1:]
    found = {key: min(b[key] for b in blocks) for key in blocks[0] if key != "afterwards_s"}
    found["median_round_ms"] = statistics.median(b["round_ms"] for b in blocks)
    found["afterwards_s"] = max(b["afterwards_s"] for b in blocks)
    if folder.exists():
        found |= from_the_log(folder, block)
    return found | {"blocks": blocks}


def from_the_log(folder: Path, block: int) -> dict[str, float]:
    """Return what the run log says of single rounds and of the server's step, in ms.

    Without the block that warms up, nor the last round of a block, which waits for its turn.
    """
    (path,) = folder.rglob("rounds/*/seed-*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()][block:]
    steps = [1e3 * line["step_seconds"] for line in lines]
    rounds = sorted(1e3 * line["seconds"] for line in lines if line["round"] % block)
    return {
        "one_round_ms_median": statistics.median(rounds),
        "one_round_ms_p90": rounds[int(0.9 * len(rounds))],
        "one_round_ms_max": rounds[-1],
        "step_ms_median": statistics.median(steps),
        "step_ms_max": max(steps),
        "stale_per_round": statistics.fmean(line["stale"] for line in lines),
        "conversions_per_round": statistics.fmean(line["conversions"] for line in lines),
        "awaiting_fit_max": max(line.get("awaiting_fit", 0) for line in lines),
    }


def add_ratios(rows: dict[str, dict[str, Any]]) -> None:
    """Add how long rounds take beside those of the first row: the best, and turn by turn."""
    first = next(iter(rows.values()))
    for row in rows.values():
        turns = zip(row["blocks"], first["blocks"], strict=True)
        row["ratio_of_best"] = row["round_ms"] / first["round_ms"]
        row["ratio_of_turns"] = statistics.median(a["round_ms"] / b["round_ms"] for a, b in turns)
        row["ratio_of_cpu"] = row["all_cpu_ms"] / max(first["all_cpu_ms"], 1e-9)


def show(part: str, rows: dict[str, dict[str, Any]]) -> None:
    """Print a table."""
    print(
        f"\n{part:<26}{'ms/round':>9}{'ratio':>7}{'by turns':>9}{'server CPU':>11}{'all CPU':>9}"
        f"{'ratio':>7}{'round p90':>11}{'longest':>9}{'step ms':>9}{'longest':>9}"
        f"{'stale':>7}{'conv.':>7}{'fits':>5}{'left s':>8}"
    )
    for name, row in rows.items():
        print(
            f"{name:<26}{row['round_ms']:>9.0f}{row['ratio_of_best']:>7.2f}"
            f"{row['ratio_of_turns']:>9.2f}{row['server_cpu_ms']:>11.0f}{row['all_cpu_ms']:>9.0f}"
            f"{row['ratio_of_cpu']:>7.2f}"
            f"{row.get('one_round_ms_p90', 0):>11.0f}{row.get('one_round_ms_max', 0):>9.0f}"
            f"{row.get('step_ms_median', 0):>9.1f}{row.get('step_ms_max', 0):>9.0f}"
            f"{row.get('stale_per_round', 0):>7.2f}{row.get('conversions_per_round', 0):>7.2f}"
            f"{row.get('awaiting_fit_max', 0):>5.0f}{row['afterwards_s']:>8.1f}"
        )


def run_quietly(arguments: list[str]) -> int:
    """Run this script again where Flower and Ray find nothing to call home about."""
    with tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as place:
        home = Path(place, "home")
        home.mkdir()
        # Without this file Ray asks a cloud's metadata address where it is.
        (home / "ray_bootstrap_config.yaml").write_text("{}\n")
        environment = {
            **os.environ,
            "HOME": str(home),
            "FLWR_HOME": str(home / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Else Ray looks up the route to 8.8.8.8 for an address of its own.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_TMPDIR": place,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, __file__, "--inside", *arguments]
        return subprocess.run(command, env=environment).returncode


def main() -> None:
    """Print the tables, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--blocks", type=int, default=5, help="blocks of each, one to warm up apart"
    )
    parser.add_argument("--block", type=int, default=8, help="rounds of a block")
    parser.add_argument("--parts", default="rounds,conversions")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    require_clean(chosen.json)
    about = provenance([])
    if not chosen.inside:
        sys.exit(run_quietly(sys.argv[1:]))
    server_app, found = ServerApp(), {}

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        found.update(measure(grid, chosen))

    # Two actors on two cores, as `flwr run` does with one core for each client.
    run_simulation(
        server_app,
        client_app,
        num_supernodes=NODES,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0},
            "init_args": {"_node_ip_address": "127.0.0.1"},
        },
    )
    if not found:
        sys.exit("The simulation failed; see above.")
    for part, rows in found.items():
        add_ratios(rows)
        show(part, rows)
    if chosen.json:
        setting = {
            "nodes": NODES,
            "per_round": PER_ROUND,
            "slow": SLOW,
            "blocks": chosen.blocks,
            "rounds_per_block": chosen.block,
            **{name: importlib.metadata.version(name) for name in ("flwr", "ray")},
        }
        write_result(chosen.json, about, {"setting": setting, **found})


if __name__ == "__main__":
    main()
