"""What does each protection hide, and what does it cost in conversion error and in accuracy?

Every setting is measured twice in the quickstart's scenario: end to end, with `convert` and, where
clients protect their updates, with `no_delay` and `unweighted` under the same protection; and by
`unstale audit`, on the same data, model, recipe and settings.

    python experiments/privacy_cost/study.py --seeds 10 --out FILE
    python experiments/privacy_cost/study.py --smoke --seeds 0
"""

import argparse
import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from unstale.audit import AuditPlan, audit_experiment
from unstale.audit.attacks import Matching
from unstale.data import Dataset
from unstale.experiment import ExperimentConfig, load_data, load_experiment
from unstale.experiment.method_config import parse_methods
from unstale.experiment.prepare import prepare
from unstale.inversion import Inversion
from unstale.privacy import spent
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.run_folder.schema import Round
from unstale.sim import Scenario

EXPERIMENT = "quickstart"
ON_CONVERT = "methods.convert."
# The default of `convert`; the quickstart has a tuned one.
HISTORY = f"{ON_CONVERT}inversion.history={Inversion().history}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A protection, as changes of the experiment file."""

    where: str
    """Who protects: `nobody`, `server` or `client`."""
    changes: tuple[str, ...] = ()
    """Settings, `key=value`; those of the method as `inversion.sparsity=0.95`."""

    @property
    def overrides(self) -> list[str]:
        """The changes as `unstale run --set` takes them.

        Example:
            >>> Setting("server", ("inversion.sparsity=0.5",)).overrides
            ['methods.convert.inversion.sparsity=0.5']
        """
        return [c if c.startswith("protection.") else ON_CONVERT + c for c in self.changes]


def _private(multiplier: float) -> Setting:
    noise = f"protection.noise_multiplier={multiplier}"
    return Setting("client", ("protection.clip=1.0", noise))


SETTINGS: dict[str, Setting] = {
    "default": Setting("nobody"),
    "one update": Setting("server", ("inversion.history=1",)),
    "nothing kept": Setting("server", ("stand_in=false", "warm_start=false")),
    "server 75 %": Setting("server", ("inversion.sparsity=0.75",)),
    "server 95 %": Setting("server", ("inversion.sparsity=0.95",)),
    "server noise 1e-4": Setting("server", ("inversion.target_noise=1e-4",)),
    "server noise 1e-3": Setting("server", ("inversion.target_noise=1e-3",)),
    "client 75 %": Setting("client", ("protection.sparsity=0.75", "inversion.sparsity=0.75")),
    "client 95 %": Setting("client", ("protection.sparsity=0.95", "inversion.sparsity=0.95")),
    "client 95 %, server not told": Setting("client", ("protection.sparsity=0.95",)),
    "client noise 1e-4": Setting("client", ("protection.noise_variance=1e-4",)),
    "client noise 1e-3": Setting("client", ("protection.noise_variance=1e-3",)),
    "client 95 % + noise 1e-3": Setting(
        "client",
        (
            "protection.sparsity=0.95",
            "protection.noise_variance=1e-3",
            "inversion.sparsity=0.95",
        ),
    ),
    "client clip 1": Setting("client", ("protection.clip=1.0",)),
    "client clip 1, noise 0.01": _private(0.01),
    "client clip 1, noise 0.1": _private(0.1),
    "client clip 1, noise 10": _private(10.0),
}


def config_of(name: str, *more: str) -> ExperimentConfig:
    """Return the quickstart with a setting."""
    return load_experiment(
        EXPERIMENT, overrides=("oracle=true", HISTORY, *SETTINGS[name].overrides, *more)
    )


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of what is there; None of nothing.

    Example:
        >>> mean([1.0, None, 2.0]), mean([None])
        (1.5, None)
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(f"{fmean(known):.5g}") if known else None


def figures(lines: list[Round]) -> dict[str, Any]:
    """Return what a run is judged by: accuracies, errors, and how often conversion failed."""
    end, late = lines[-max(1, len(lines) // 5) :], lines[len(lines) // 2 :]
    return {
        "accuracy": mean(line.accuracy for line in end),
        "affected": mean(line.affected_accuracy for line in end),
        "affected_mean": mean(line.affected_accuracy for line in late),
        "stale_cosine": mean(line.oracle.get("stale_cosine") for line in late),
        "converted_cosine": mean(line.oracle.get("compensated_cosine") for line in late),
        "stand_in_cosine": mean(line.oracle.get("stand_in_cosine") for line in late),
        "conversions": sum(line.conversions for line in lines),
        "fell_back": sum(len(line.fell_back) for line in lines),
        "stand_ins": sum(len(line.stand_ins) for line in lines),
    }


def run_of(name: str, method: str, seed: int, rounds: int | None, data: Dataset) -> dict[str, Any]:
    """Return the figures of one method under one setting."""
    config = config_of(name)
    chosen = next((m for m in config.methods if m.label == method), None)
    if chosen is None:
        (chosen,) = parse_methods([{"name": method}])
    scenario = Scenario(config.scenario, data, seed)
    simulation = prepare(config, chosen, scenario, torch.device("cpu"))
    simulation.batched = True  # faster for a model as small as this
    lines = [simulation.run_round(evaluate_now=False) for _ in range(rounds or config.rounds)]
    found = figures(lines)
    sent = lines[-1].most_sent
    if config.protection.is_private and sent:
        found |= {"most_sent": sent, "epsilon": spent(config.protection, sent).epsilon}
    return found


def audit_of(name: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the measures of the audit under a setting, by client size and attack."""
    sizes = arguments.sizes if name == "default" else arguments.fewer_sizes
    plan = AuditPlan(sizes=tuple(sizes), seed=seed)
    changes: tuple[str, ...] = ()
    if arguments.smoke:
        plan = dataclasses.replace(plan, updates=1, begin=1, matching=Matching(iterations=5))
        changes = (ON_CONVERT + "inversion.iterations=30",)
    found = audit_experiment(config_of(name, *changes), plan=plan, lpips=arguments.lpips)
    tree: dict[str, Any] = {}
    for size in found.sizes:
        rows = {by: _plain(dataclasses.asdict(quality)) for by, quality in size.rows.items()}
        labels = _plain(dataclasses.asdict(size.labels))
        tree[str(size.samples)] = {"rows": rows, "labels": labels, "failed": size.failed}
    return tree


def _plain(values: dict[str, float]) -> dict[str, float | None]:
    return {k: float(f"{v:.5g}") if math.isfinite(v) else None for k, v in values.items()}


def done_before(out: Path | None, about: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a file holds, so that a run goes on where it stopped."""
    if out is None or not out.is_file():
        return {}
    before = json.loads(out.read_text(encoding="utf-8"))
    if before["about"]["commit"] != about["commit"]:
        raise SystemExit(f"{out} is of another commit. Remove it, or name another --out.")
    found: dict[str, Any] = before["settings"]
    return found


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])

    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    parser.add_argument("--seeds", type=numbers, default=[10])
    parser.add_argument("--settings", type=lambda t: t.split(";"), default=list(SETTINGS))
    parser.add_argument("--sizes", type=numbers, default=[1, 4, 16, 40], help="of audited clients")
    parser.add_argument(
        "--fewer-sizes", type=numbers, default=[4, 40], help="the same, with a protection"
    )
    parser.add_argument("--lpips", type=Path, help="weights of LPIPS; left out without them")
    parser.add_argument("--smoke", action="store_true", help="a few rounds, to see that it works")
    parser.add_argument("--device", default="cpu", choices=["cpu"], help="always the CPU")
    parser.add_argument("--data", help="not used: digits are embedded")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    """Run what was asked for and write all of it."""
    arguments = parsed()
    require_clean(arguments.out)
    if len(arguments.seeds) != 1:
        raise SystemExit("--seeds should be one seed: a result file has one.")
    (seed,) = arguments.seeds
    torch.set_num_threads(1)
    about = provenance(arguments.seeds)
    data = load_data(load_experiment(EXPERIMENT))
    rounds = 3 if arguments.smoke else None
    found = done_before(arguments.out, about)
    for name in arguments.settings:
        if name in found:
            continue
        setting = SETTINGS[name]
        methods = ["convert"]
        if setting.where != "server":  # a server's own restraint changes no other method
            methods = ["no_delay", "unweighted", "convert"]
        runs = {method: run_of(name, method, seed, rounds, data) for method in methods}
        found[name] = {"where": setting.where, "runs": runs}
        if name != "nothing kept":  # the fits of one round are those of the default
            found[name]["audit"] = audit_of(name, seed, arguments)
        print(f"seed {seed}, {name}: {runs['convert']}", flush=True)
        if arguments.out:  # what was measured outlives a run that is cut off
            write_result(arguments.out, about, {"settings": found})


if __name__ == "__main__":
    main()
