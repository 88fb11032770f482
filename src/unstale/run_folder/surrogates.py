"""Some of the surrogates that a method made, for the report page."""

import json
from pathlib import Path
from typing import Any

from unstale.files import write_whole
from unstale.inversion import InputSpec, Surrogate
from unstale.server import Server

MAX_CLIENTS, MAX_SAMPLES = 6, 8
# All of a file's values: it is there to be looked at, and large inputs show with fewer samples.
MAX_VALUES = 200_000


def write_surrogates(path: Path, server: Server) -> None:
    """Write what some surrogates of a server look like; no file where it keeps none."""
    inputs = server.inputs
    if inputs is None:
        return
    kept = {c: s for c, s in sorted(server.surrogates().items()) if s.fits(inputs)}
    if not kept:
        return
    chosen = list(kept)[:MAX_CLIENTS]
    size = kept[chosen[0]].x[0].numel() * len(chosen)
    samples = max(1, min(MAX_SAMPLES, MAX_VALUES // size))
    shown = [_described(client, kept[client], inputs, samples) for client in chosen]
    # Without indents, which would give each of the values a line of its own.
    content = {"clients": shown, "of": len(kept)}
    write_whole(path, (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode())


def _described(client: str, surrogate: Surrogate, inputs: InputSpec, most: int) -> dict[str, Any]:
    return {
        "client": client,
        "shape": list(inputs.shape),
        "low": inputs.low,
        "high": inputs.high,
        "samples": len(surrogate),
        "x": [_rounded(x.flatten().tolist()) for x in surrogate.x[:most]],
        "labels": [_rounded(y.tolist()) for y in surrogate.labels[:most]],
    }


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 3) for value in values]
