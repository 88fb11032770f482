"""Figures of labels that are told, from the result files that are kept.

<!-- from: tables.py told mnist 5 450 learned none -->
"""

import json
from pathlib import Path
from statistics import fmean

RESULTS = Path(__file__).parent / "results"


def told(name: str, steps: str, samples: str, way: str, *protections: str) -> list[float]:
    """Return the share of labels told right under some protections: means over seeds.

    Args:
        name: The set, such as `mnist`.
        steps: Local epochs.
        samples: Samples of a client.
        way: How they are told: `learned`, `last layer` or `even`.
        protections: The protections, such as `none`.
    """
    kept = [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{name}_[0-9]*.json"))]
    found = [one["right"][steps][samples][way] for one in kept]
    return [fmean(one[protection] for one in found) for protection in protections]
