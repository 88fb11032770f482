"""When a node should fail or dawdle: told and timed by files that the test sees too."""

import json
import time
from pathlib import Path


def take_order(folder: Path, partition: int) -> str:
    """Return what a node was told to do with its next message, once: `raise` or `die`."""
    order = folder / f"order-{partition}"
    if not order.exists():
        return ""
    text = order.read_text()
    order.unlink()
    return text


def dawdle(folder: Path, received: str, rounds: int) -> None:
    """Return once the world is so many versions further: lateness on any machine."""
    if not rounds:
        return
    while (base := _version(folder, received)) is not None:
        if (folder / f"version-{base + rounds}.json").exists():
            break
        time.sleep(0.05)


def _version(folder: Path, weights: str) -> int | None:
    """Return which version weights are; None if it went with a server that died."""
    for path in folder.glob("version-*.json"):
        if json.loads(path.read_text())["weights"] == weights:
            return int(path.stem.split("-")[1])
    return None
