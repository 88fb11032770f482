"""Which images can a server recover: of one sample and one gradient, and of whole clients?

`singles` is the paper's easiest case: the gradient of one sample, of which 0, 30, 75 or 95 % of
the entries are left out, or to which noise is added; attacked by our own inversion and by
gradient matching. `clients` are surrogates as conversion makes them, by the client's size and
its number of local steps, beside an attack on the update alone. Baselines stand beside both.

    python experiments/privacy_images/study.py --smoke
    python experiments/privacy_images/study.py --set lenet_mnist --data DIR --device cuda --out FILE
"""

import argparse
import dataclasses
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from unstale.audit import AuditPlan, audit_experiment
from unstale.audit.attacks import Matching, recover_singles
from unstale.audit.attacks.single_sample import ATTACKS
from unstale.audit.baselines import HELD_OUT, MEAN, NOISE, baselines, split_held_out
from unstale.audit.metrics import Judge, Lpips, Match, Quality, trained_classifier, unit_range
from unstale.data import data_roots
from unstale.experiment import ExperimentConfig, load_experiment
from unstale.experiment.load_data import load_data
from unstale.experiment.model import model_for
from unstale.experiment.prepare import inputs_of
from unstale.inversion import InputSpec
from unstale.params import params_of
from unstale.privacy import Protection
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent / "main_table"
# The experiments of the paper's main table, whose recipe and clients these are.
SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "digits": ("quickstart", ()),
    "lenet_mnist": (str(TABLE / "mnist.toml"), ()),
    "lenet_cifar10": (str(TABLE / "cifar10.toml"), ("model.name=lenet",)),
    "resnet18_cifar10": (str(TABLE / "cifar10.toml"), ()),
}
PROTECTIONS = {
    "0 %": Protection(),
    "30 %": Protection(sparsity=0.30),
    "75 %": Protection(sparsity=0.75),
    "95 %": Protection(sparsity=0.95),
    "noise": Protection(noise_variance=1e-3),
    "95 % + noise": Protection(sparsity=0.95, noise_variance=1e-3),
}
LPIPS = "lpips_alex.npz"
SHOWN = 5  # pictures of each kind


def config_of(name: str, *changes: str) -> ExperimentConfig:
    """Return the experiment of a set, with some settings changed."""
    path, own = SETS[name]
    return load_experiment(path, overrides=(*own, *changes))


def lpips_of(arguments: argparse.Namespace) -> Path | None:
    """Return the weights of LPIPS: those named, else those in a data root, else None."""
    if arguments.lpips is not None:
        return arguments.lpips
    places = [root / LPIPS for root in data_roots(arguments.data)]
    return next((path for path in places if path.is_file()), None)


def plain(quality: Quality) -> dict[str, float | None]:
    """Return measures as JSON has them: five digits, null for what is no number.

    Example:
        >>> plain(Quality(0.123456, 9.0, math.nan, 1, 1, 1, 1, 1, 4, 20))["mse"]
        0.12346
    """
    found = dataclasses.asdict(quality)
    return {
        key: float(f"{value:.5g}") if math.isfinite(value) else None for key, value in found.items()
    }


def pixels(x: torch.Tensor, inputs: InputSpec) -> list[list[int]]:
    """Return some inputs as bytes from 0 to 255."""
    levels = (255 * unit_range(x[:SHOWN], inputs)).round().int()
    return [row.flatten().tolist() for row in levels.cpu()]


def singles(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return every measure of the easiest case, by attack and protection."""
    config = config_of(arguments.set)
    device = torch.device(arguments.device)
    whole = load_data(config, arguments.data)
    model = model_for(config, whole, seed, arguments.data)[0].to(device)
    inputs = inputs_of(model, whole)
    order = torch.randperm(len(whole.x_train), generator=generator(seed, "privacy", "samples"))
    chosen, rest = order[: arguments.samples], order[arguments.samples :]
    x, y = whole.x_train[chosen].to(device), whole.y_train[chosen].to(device)
    lessons = (whole.x_train[rest].to(device), whole.y_train[rest].to(device))
    references, candidates = split_held_out(
        whole.x_test[:2000].to(device), whole.y_test[:2000].to(device), seed
    )
    path = lpips_of(arguments)
    pupil = model
    if arguments.judge:
        pupil = model_for(config_of(arguments.judge), whole, seed, arguments.data)[0].to(device)
    classifier = trained_classifier(pupil, *lessons, steps=arguments.classifier, seed=seed)
    judge = Judge(inputs, candidates, classifier, Lpips(path, device) if path else None)
    own = Match(tuple(range(len(x))), tuple(range(len(x))))
    weights = params_of(model)
    known: dict[str, torch.Tensor] = {}
    for i in range(len(x)):  # one baseline for each sample, of its own class
        for name, one in baselines(1, y[i : i + 1], references, inputs=inputs, seed=i).items():
            known[name] = torch.cat([known[name], one]) if name in known else one
    base = {
        name: plain(judge.measure(known[name], x, y, pairs=own)) for name in (NOISE, MEAN, HELD_OUT)
    }
    found: dict[str, Any] = {"original": plain(judge.measure(x, x, y, pairs=own))}
    pictures = {"original": pixels(x, inputs), NOISE: pixels(known[NOISE], inputs)}
    for attack in ATTACKS:
        found[attack] = dict(base)
        for name in arguments.protections:
            recovered, labels = recover_singles(
                attack, model, weights, x, y, inputs=inputs, protection=PROTECTIONS[name],
                iterations=arguments.iterations, at_once=arguments.at_once, seed=seed,
            )  # fmt: skip
            row = plain(judge.measure(recovered, x, y, pairs=own))
            row["label"] = float((labels == y).double().mean())
            found[attack][name] = row
            pictures[f"{attack}, {name}"] = pixels(recovered, inputs)
            print(f"{arguments.set}, seed {seed}: {attack} at {name}: {row}", flush=True)
    return {"singles": found, "pictures": {"shape": list(inputs.shape), **pictures}}


def clients(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return every measure of whole clients, one row for each attack, size and number of steps.

    With some pictures, of the largest clients with the most steps.
    """
    rows, pictures = [], {}
    sizes = tuple(arguments.sizes)
    for steps in arguments.steps:
        changes = [f"local.epochs={steps}"]
        if arguments.fit_iterations:
            changes.append(f"methods.convert.inversion.iterations={arguments.fit_iterations}")
        if arguments.set != "digits":
            changes.append(f"partition.samples={max(sizes)}")
        plan = AuditPlan(
            sizes=sizes,
            updates=arguments.updates,
            begin=arguments.begin,
            matching=Matching(iterations=arguments.client_iterations),
            seed=seed,
        )
        found = audit_experiment(
            config_of(arguments.set, *changes),
            plan=plan,
            attacked=arguments.attacked,
            clients=arguments.clients,
            lpips=lpips_of(arguments),
            device=arguments.device,
            data_root=arguments.data,
        )
        print(found, flush=True)
        for size in found.sizes:
            about = {"epochs": steps, "samples": size.samples, "surrogate": size.surrogate}
            labels = {f"labels_{k}": v for k, v in dataclasses.asdict(size.labels).items()}
            about |= {k: v if math.isfinite(v) else None for k, v in labels.items()}
            rows += [{**about, "by": name, **plain(q)} for name, q in size.rows.items()]
        strips = found.sizes[-1].strips
        pictures = {s.name: [[round(255 * v) for v in x] for x in s.x[:SHOWN]] for s in strips} | {
            "shape": list(strips[0].shape)
        }
    return {"clients": rows, "matches": pictures}


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments; `--smoke` is a choice of them that takes seconds.

    Example:
        >>> parsed(["--smoke"]).sizes, parsed(["--sizes", "1,16"]).sizes
        ([2], [1, 16])
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])

    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    def protections(text: str) -> list[str]:
        found = [word.strip() for word in text.split(",")]
        if wrong := set(found) - set(PROTECTIONS):
            raise argparse.ArgumentTypeError(f"{sorted(wrong)} are none of {list(PROTECTIONS)}")
        return found

    parser.add_argument("--smoke", action="store_true", help="digits in seconds, few iterations")
    parser.add_argument("--set", default="digits", choices=sorted(SETS))
    parser.add_argument("--data", help="the data folder")
    parser.add_argument("--lpips", type=Path, help=f"weights; else {LPIPS} in the data folder")
    parser.add_argument("--seeds", type=numbers, default=[10])
    parser.add_argument("--parts", default="singles,clients")
    parser.add_argument("--samples", type=int, default=64, help="single samples to attack")
    parser.add_argument("--iterations", type=int, default=2000, help="on single samples")
    parser.add_argument("--client-iterations", type=int, default=500, help="on clients' updates")
    parser.add_argument("--fit-iterations", type=int, help="of conversion; else its default")
    parser.add_argument(
        "--protections", type=protections, default=list(PROTECTIONS), help="of single samples"
    )
    parser.add_argument("--judge", choices=sorted(SETS), help="whose model is the classifier")
    parser.add_argument("--at-once", type=int, default=16, help="single samples in one batch")
    parser.add_argument("--classifier", type=int, default=2000, help="steps of its training")
    parser.add_argument("--sizes", type=numbers, default=[1, 4, 16, 64, 450], help="of clients")
    parser.add_argument("--steps", type=numbers, default=[1, 5, 50], help="local epochs")
    parser.add_argument("--updates", type=int, default=5, help="conversions of each client")
    parser.add_argument("--begin", type=int, default=10, help="version of the first update")
    parser.add_argument("--attacked", type=int, default=3, help="clients of each size")
    parser.add_argument("--clients", type=int, default=20, help="that train the model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    words = sys.argv[1:] if words is None else words
    if "--smoke" in words:
        parser.set_defaults(
            seeds=[0], samples=2, iterations=5, client_iterations=5, classifier=20, sizes=[2],
            steps=[1], updates=1, begin=1, attacked=2, fit_iterations=30,
        )  # fmt: skip
    return parser.parse_args(words)


def main() -> None:
    """Run what was asked for and write all of it."""
    arguments = parsed()
    require_clean(arguments.out)
    about = provenance(arguments.seeds, arguments.device)
    content: dict[str, Any] = {"set": arguments.set}
    if len(arguments.seeds) != 1:
        raise SystemExit("--seeds should be one seed: a result file has one.")
    for part in arguments.parts.split(","):
        if part == "singles":
            content |= singles(arguments, arguments.seeds[0])
        else:
            content |= clients(arguments, arguments.seeds[0])
        if arguments.out:  # what was measured outlives a run that is cut off
            write_result(arguments.out, about, content)


if __name__ == "__main__":
    main()
