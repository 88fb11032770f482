"""Torch devices by name."""

import torch

from unstale.errors import ConfigError


def resolve_device(name: str | torch.device) -> torch.device:
    """Return the torch device of that name, or raise ConfigError if it is not available."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device).item()  # fails for "meta", which has no values
    except (RuntimeError, AssertionError, ImportError) as error:
        # The first sentence of torch's long message is enough.
        first = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise ConfigError(
            f"The device should be one that torch has here, such as cpu or cuda. "
            f"Found '{name}': {first}"
        ) from error
    return device
