"""What a run's summary says about protection: the settings, and (ε, δ) where there is one."""

import dataclasses
from typing import Any

from unstale.experiment.config import ExperimentConfig
from unstale.privacy import spent
from unstale.privacy.accounting import ASSUMED
from unstale.run_folder import Lines, RunFolder


def privacy_summary(config: ExperimentConfig, folder: RunFolder) -> dict[str, Any]:
    """Return the part `privacy` of a summary; nothing if clients protect nothing.

    `methods` has, by label, the number of updates that the client with the most of them has sent,
    and ε for it, the largest over seeds. It is there if updates are differentially private.
    """
    protection = config.protection
    if not protection.enabled:
        return {}
    found: dict[str, Any] = {"protection": dataclasses.asdict(protection)}
    if protection.is_private:
        most = {
            method.label: max(_most_sent(folder, method.label, seed) for seed in config.seeds)
            for method in config.methods
        }
        found["delta"] = protection.delta
        found["assumed"] = ASSUMED
        found["methods"] = {
            label: {"updates": updates, "epsilon": spent(protection, updates).epsilon}
            for label, updates in most.items()
        }
    return {"privacy": found}


def _most_sent(folder: RunFolder, label: str, seed: int) -> int:
    lines = Lines(folder.lines_path(label, seed)).read()
    return max((line.most_sent or 0 for line in lines), default=0)
