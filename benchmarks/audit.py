"""Seconds of CPU and of wall time that `unstale audit` takes on the embedded data.

The whole command, in a process of its own: start, attacks, measures, page. CPU seconds say how
long it takes on a machine that does nothing else; wall time depends on what else runs.

    python benchmarks/audit.py [--seeds 10,11,12] [--out FILE]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from unstale.run_folder.provenance import provenance, require_clean, write_result


def measured(seed: int, folder: str) -> dict[str, float]:
    """Return the seconds of one audit with its page."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words = ["-m", "unstale", "audit", "--seed", str(seed), "--out", "audit.html"]
    subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seed": seed, "cpu_seconds": round(cpu, 2), "wall_seconds": round(wall, 2)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="10,11,12", help="one audit for each")
    parser.add_argument("--out", type=Path, help="write the seconds to this file")
    options = parser.parse_args()
    require_clean(options.out)
    seeds = [int(word) for word in options.seeds.split(",")]
    about = provenance(seeds)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(seed, folder) for seed in seeds]
    for row in rows:
        print(row)
    if options.out:
        most = max(row["cpu_seconds"] for row in rows)
        write_result(options.out, about, {"most_cpu_seconds": most, "rows": rows})


if __name__ == "__main__":
    main()
