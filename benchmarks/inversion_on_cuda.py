"""Check and time the inversion's iteration on a GPU.

    PYTHONPATH=src python benchmarks/inversion_on_cuda.py [--quick] [--json FILE]

Compares the captured iteration with the same iteration run eagerly and with the
plain form (one client after another, on the GPU and on the CPU), tells whether two
runs give the same bits, and times 1 and 10 clients with 32, 64 and 225 samples. Data
are random; the model is a LeNet of 21,840 weights and training is 5 full-batch steps.
Exits with 1 if something differs.
"""

import argparse
import json
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import unstale as us
from unstale.inversion import InputSpec, Inversion, Request, convert_many
from unstale.inversion.capture import Captured, captured
from unstale.inversion.descent import Buffers, Descent, make_buffers
from unstale.inversion.starts import start_of
from unstale.inversion.target import Target, target_of
from unstale.inversion.unroll import batched, one_by_one
from unstale.seeding import generator

INPUTS = InputSpec(shape=(1, 28, 28), classes=10, low=0.0, high=1.0)
LOCAL = us.LocalSpec(lr=0.01, momentum=0.5, steps=5)


class LeNet(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def client(model: nn.Module, seed: int, device: str, examples: int = 100) -> Target:
    """Return a random client's update from random weights."""
    rng = generator(seed, "client")
    base = {
        n: (torch.randn(p.shape, generator=rng) * (0.05 if p.ndim > 1 else 0.01)).to(device)
        for n, p in model.named_parameters()
    }
    x = torch.rand(examples, *INPUTS.shape, generator=rng).to(device)
    y = torch.randint(0, 10, (examples,), generator=rng).to(device)
    return target_of(base, us.local_update(model, base, x, y, LOCAL), tuple(base), 0.0)


def problem(
    model: nn.Module, clients: int, samples: int, settings: Inversion, device: str, updates: int = 1
) -> Buffers:
    """Return the buffers of a random problem."""
    targets = [
        [client(model, c * updates + u, device) for u in range(updates)] for c in range(clients)
    ]
    starts = [start_of("grey")(INPUTS, samples, 0.1, generator(c, "start")) for c in range(clients)]
    return make_buffers(targets, starts, settings, settings.iterations, warm=False)


def after(advance, buffers: Buffers, iterations: int) -> tuple[Tensor, Tensor]:
    """Return rows and losses after so many iterations."""
    for _ in range(iterations):
        advance()
    return buffers.rows.double().cpu().clone(), buffers.losses[:iterations].double().cpu().clone()


def check(
    model: nn.Module, settings: Inversion, clients: int, updates: int, local: us.LocalSpec
) -> bool:
    """Compare the forms over a few iterations; return whether they agree."""
    samples, iterations = 32, 5
    device = torch.device("cuda")
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for name in ("captured", "again", "eager", "plain", "cpu"):
        where = "cpu" if name == "cpu" else "cuda"
        model.to(where)
        buffers = problem(model, clients, samples, settings, where, updates)
        form = (
            one_by_one(model, local)
            if name in ("plain", "cpu")
            else batched(model, local, samples, device)
        )
        descent = Descent(form, INPUTS, settings, samples, buffers.rows)
        if name in ("captured", "again"):
            graph = Captured(descent, buffers, torch.cuda.graph_pool_handle())
            found[name] = after(graph, graph.buffers, iterations)
        else:
            found[name] = after(lambda d=descent, b=buffers: d(b), buffers, iterations)
    model.to("cuda")
    good = True
    for name in ("again", "eager", "plain", "cpu"):
        # Signs and a client's Adam turn the rounding of a tiny gradient into a whole step:
        # there, other kernels can only be compared before the first step.
        first_only = name in ("plain", "cpu") and (
            settings.optimizer == "signed" or local.optimizer == "adam"
        )
        until = 1 if first_only else iterations
        difference = (found[name][1] - found["captured"][1])[:until] / found["captured"][1][:until]
        loss = float(difference.abs().max())
        rows = float((found[name][0] - found["captured"][0]).abs().mean())
        fine = loss < 2e-3 and (first_only or rows < 2e-3)
        good &= fine
        verdict = "ok" if fine else "DIFFERS"
        print(f"    captured against {name:8s} loss {loss:.1e}  rows {rows:.1e}  {verdict}")
    same = torch.equal(found["captured"][0], found["again"][0])
    print(f"    two captured runs give the same bits: {same}")
    return good


def timed(advance, repeats: int) -> float:
    """Return milliseconds a call."""
    advance()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        advance()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats * 1e3


def timings(model: nn.Module, quick: bool) -> list[dict[str, object]]:
    """Time eager and captured iterations; print a table."""
    rows: list[dict[str, object]] = []
    print("  samples clients updates | eager ms  captured ms  ms/client | capture s  peak GiB")
    cases = [(n, c, 1) for n in ((64,) if quick else (32, 64, 225)) for c in (1, 10)]
    for samples, clients, updates in [*cases, (64, 10, 4)]:
        settings = Inversion(sparsity=0, iterations=400)
        buffers = problem(model, clients, samples, settings, "cuda", updates)
        form = batched(model, LOCAL, samples, torch.device("cuda"))
        descent = Descent(form, INPUTS, settings, samples, buffers.rows)
        eager = timed(lambda d=descent, b=buffers: d(b), 5)
        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        graph = captured(model, ("bench", samples, clients, updates), descent, buffers)
        taken = time.perf_counter() - began
        if graph is None:
            print(f"  {samples:7d} {clients:7d} {updates:7d} | {eager:8.1f}  no graph")
            continue
        graph.buffers.iteration.zero_()
        replay = timed(graph, 50)
        peak = torch.cuda.max_memory_allocated() / 2**30
        rows.append(
            {
                "samples": samples,
                "clients": clients,
                "updates": updates,
                "eager_ms": eager,
                "captured_ms": replay,
                "capture_s": taken,
                "peak_gib": peak,
            }
        )
        print(
            f"  {samples:7d} {clients:7d} {updates:7d} | {eager:8.1f}  {replay:11.2f}  "
            f"{replay / clients:9.2f} | {taken:9.2f}  {peak:8.2f}"
        )
    return rows


def end_to_end(model: nn.Module) -> list[dict[str, object]]:
    """Time whole conversions by the public call: first, and with graph and surrogate kept."""
    rows: list[dict[str, object]] = []
    current = client(model, 999, "cuda").base
    for clients in (1, 10):
        requests = []
        for c in range(clients):
            target = client(model, c, "cuda")
            parts = target.delta.split([p.numel() for p in target.base.values()])
            delta = {n: d.view_as(p) for (n, p), d in zip(target.base.items(), parts, strict=True)}
            requests.append(Request(target.base, delta, 450, seed=c))
        warm: list[Request] = requests
        for label in ("first", "first again", "warm", "warm again"):
            given = warm if label.startswith("warm") else requests
            torch.cuda.synchronize()
            began = time.perf_counter()
            done = convert_many(
                model,
                given,
                current=current,
                local=LOCAL,
                inputs=INPUTS,
                settings=Inversion(sparsity=0),
            )
            torch.cuda.synchronize()
            taken = time.perf_counter() - began
            warm = [
                Request(r.base, r.delta, 450, seed=r.seed, warm=d.surrogate)
                for r, d in zip(requests, done, strict=True)
            ]
            iterations = max(d.iterations for d in done)
            rows.append(
                {"clients": clients, "what": label, "seconds": taken, "iterations": iterations}
            )
            print(
                f"  {clients:2d} clients, {label:11s} {taken:.3f} s, {taken / clients * 1e3:.0f} ms"
                f" a client, at most {iterations} iterations, mean loss "
                f"{sum(d.loss for d in done) / clients:.3f}, ok {all(d.ok for d in done)}"
            )
    return rows


def main() -> int:
    """Run all checks and timings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="time 64 samples only")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("No CUDA device is visible: nothing was checked.")
        return 2
    torch.backends.cudnn.deterministic = True
    # Comparisons across devices are of single precision, not of TF32.
    torch.backends.cudnn.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    model = LeNet().to("cuda")
    good = True
    plain = Inversion(sparsity=0, iterations=20)
    cases = {
        "1 client": (plain, 1, 1, LOCAL),
        "3 clients, 2 updates each": (plain, 3, 2, LOCAL),
        "signed, l1+cosine, total variation": (
            Inversion(sparsity=0, iterations=20, optimizer="signed", objective="l1+cosine", tv=0.1),
            2,
            1,
            LOCAL,
        ),
        "batches of 8, Adam": (
            plain,
            2,
            1,
            us.LocalSpec(lr=0.001, steps=6, batch_size=8, optimizer="adam"),
        ),
    }
    for name, (settings, clients, updates, local) in cases.items():
        print(f"  {name}")
        good &= check(model, settings, clients, updates, local)
    torch.backends.cudnn.allow_tf32 = True
    results = {"timings": timings(model, options.quick), "end_to_end": end_to_end(model)}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(), "agree": good, **results}, file)
    print("all forms agree" if good else "FORMS DIFFER")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
