"""The table of the README, from the kept runs: one folder for each network and method."""

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
NETWORKS = {"batchnorm": "BatchNorm, as it is", "fixed": "after `fix_model`"}


def rows() -> str:
    """Return accuracies of every run that is kept."""
    lines = [
        "| network | method | accuracy | affected | affected mean |",
        "| --- | --- | --- | --- | --- |",
    ]
    for network, words in NETWORKS.items():
        for path in sorted(RESULTS.glob(f"{network}_*/summary.json")):
            for label, found in json.loads(path.read_text(encoding="utf-8"))["methods"].items():
                keys = ("accuracy", "affected_accuracy", "affected_mean")
                cells = " | ".join(f"{found[key]:.3f}" for key in keys)
                lines.append(f"| {words} | `{label}` | {cells} |")
    return "\n".join(lines)
