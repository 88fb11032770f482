"""Weights told apart by a digest, written down where the test reads it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord


def fingerprint(arrays: ArrayRecord) -> str:
    """Return a digest of names and values."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        digest.update(array.numpy().tobytes())
    return digest.hexdigest()[:16]


def write(folder: Path, name: str, facts: dict[str, Any]) -> None:
    """Write facts into a file of their own, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{name}.draft"
    draft.write_text(json.dumps(facts))
    draft.replace(folder / f"{name}.json")
