"""The environment of a run: versions, hardware, commit and command."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unstale

if TYPE_CHECKING:
    import torch


def describe_environment(device: "torch.device", command: str) -> dict[str, Any]:
    """Return versions, hardware, the commit and the command."""
    # Here, since a report is made of a run folder without torch.
    import numpy
    import torch

    on_gpu = device.type == "cuda"
    return {
        "unstale": unstale.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if on_gpu else platform.machine(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "commit": commit(),
        "command": command,
        "started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def commit() -> str | None:
    """Return the commit of the source tree this runs from, marked if it was changed."""
    here = Path(__file__).resolve().parent
    try:
        described = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        tracked = subprocess.run(
            ["git", "-C", str(here), "ls-files", "--error-unmatch", Path(__file__).name],
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None  # installed from a wheel, or git is not there
    # Installed into somebody else's repository: its commit would say nothing about us.
    return described.stdout.strip() if tracked.returncode == 0 else None
