"""The environment of a run: versions, hardware, commit and command."""

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import unstale
from unstale.run_folder.provenance import commit, hardware

if TYPE_CHECKING:
    import torch


def describe_environment(device: "torch.device", command: str) -> dict[str, Any]:
    """Return versions, hardware, the commit and the command."""
    import numpy  # here, since a report is made of a run folder without torch

    return {
        "unstale": unstale.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "device": str(device),
        **hardware(device),
        "commit": commit(),
        "command": command,
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
