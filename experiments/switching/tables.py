"""The tables of the page, from `results/gamma.txt`, which `gamma.py` printed.

That file has two significant digits of each distance and four of each γ.
"""

import re
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
UNIT = 1e-4
"""Distances are shown in this unit."""

# By version: both distances, and γ.
Client = tuple[dict[int, tuple[float, float]], dict[int, float]]


def read(path: Path = RESULTS / "gamma.txt") -> dict[int, dict[str, Client]]:
    """Return for each seed and client the comparisons (E₁, E₂), and γ, both by version."""
    seeds: dict[int, dict[str, Client]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("seed"):
            clients = seeds.setdefault(int(line.split()[1]), {})
            continue
        client, kind, rest = re.split(r"  +", line.strip(), maxsplit=2)
        compared, gammas = clients.setdefault(client, ({}, {}))
        if kind == "γ":
            gammas.update({int(v): float(g) for v, g in re.findall(r"(\d+): (\S+)", rest)})
        else:
            found = re.findall(r"(\d+): (\S+) [<>] (\S+)", rest)
            compared.update({int(v): (float(a), float(b)) for v, a, b in found})
    return seeds


def comparisons(seed: str, *versions: str) -> str:
    """Return the comparisons of one seed's clients; worse estimates in bold."""
    lines = [_line("measured at version", *versions), "| --- |" + " --- |" * len(versions)]
    for client, (compared, _) in sorted(read()[int(seed)].items()):
        pairs = [compared.get(int(version)) for version in versions]
        first = [f"**{_cell(p[0])}**" if p[0] > p[1] else _cell(p[0]) for p in pairs if p]
        second = [_cell(p[1]) for p in pairs if p]
        empty = [""] * (len(pairs) - len(first))
        lines += [_line(f"{client}: E₁", *first, *empty), _line(f"{client}: E₂", *second, *empty)]
    return "\n".join(lines)


def fall(seed: str, client: str, *versions: str) -> str:
    """Return γ of one client, version by version; `…` stands for what is left out."""
    gammas = read()[int(seed)][client][1]
    cells = [version if version == "…" else f"{gammas[int(version)]:g}" for version in versions]
    return "\n".join(
        [_line("version", *versions), "| --- |" + " --- |" * len(cells), _line("γ", *cells)]
    )


def switches() -> str:
    """Return at which version each client switched, and where its γ ends."""
    seeds = read()
    clients = sorted(next(iter(seeds.values())))
    lines = [_line("seed", *clients), "| --- |" + " --- |" * len(clients)]
    for seed, found in seeds.items():
        cells = []
        for client in clients:
            gammas = found[client][1]
            begins = min(gammas, default=0) - 1
            cells.append(
                f"{begins}, γ = {gammas[max(gammas)]:g} at {max(gammas)}" if gammas else ""
            )
        lines.append(_line(str(seed), *cells))
    return "\n".join(lines)


def _cell(distance: float) -> str:
    return f"{float(f'{distance / UNIT:.2g}'):,g}"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
