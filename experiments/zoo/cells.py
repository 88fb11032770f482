"""The cells of the zoo: read from `cells.toml` and made ready to be tried.

A cell names data, scaling, model, clients, recipe and staleness. `prepare` turns it and a
seed into what `unstale.check.run_trial` takes.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import nets  # noqa: F401  registers the networks
import torch
from parts import Part, load_part
from torch import Tensor, nn

from unstale import LocalSpec, models
from unstale.check import Client, Trial
from unstale.errors import ConfigError
from unstale.inversion import InputSpec
from unstale.params import Params
from unstale.seeding import derive
from unstale.sim.partition import ByUser, DirichletLabels, OneClass, Partition

CELLS = Path(__file__).with_name("cells.toml")
SCALINGS = ("unit", "signed", "standardised", "published")
# Mean and deviation of values in [0, 1], for data that `unstale.data` scales so.
MOMENTS = {
    "digits": (0.305, 0.376),
    "mnist": (0.1307, 0.3081),
    "fashion_mnist": (0.2860, 0.3530),
    "cifar10": (0.4734, 0.2516),
    "disaster": (0.436, 0.258),
}
# What HAPT's channels are standardised by: acceleration in g, turning in radians a second.
HAPT_MEAN = (0.803, 0.0373, 0.0994, 0.0035, -0.001, -0.0091)
HAPT_DEVIATION = (0.4115, 0.4002, 0.3492, 0.4178, 0.3898, 0.2711)


@dataclass(frozen=True, slots=True)
class Cell:
    """One case of the zoo."""

    name: str
    data: str
    scaling: str
    """`unit` for [0, 1], `signed` for [-1, 1], `standardised`, or `published`: as in the
    published file; for HAPT in units of the sensors, without bounds."""
    model: str
    """A name in `unstale.models` or `nets.py`."""
    clients: Mapping[str, Any]
    """`kind` (`one_class`, `dirichlet` with `alpha`, or `user`), `samples` and `count`."""
    local: Mapping[str, Any]
    """The recipe: fields of `LocalSpec`."""
    staleness: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model."""
    slow: int = 4
    """The number of late clients, spread evenly over the indices."""
    begin: int = 10
    arrivals: int = 6
    every: int = 5
    quick: bool = False
    """Whether the cell is in the subset for a CPU."""

    def trial(self, seed: int) -> Trial:
        """Return who is late and when."""
        return Trial(
            slow=late_clients(self.clients["count"], self.slow),
            staleness=self.staleness,
            begin=self.begin,
            arrivals=self.arrivals,
            every=self.every,
            seed=seed,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A cell for one seed, with its data on the device."""

    model: nn.Module
    start: Params
    clients: list[Client]
    test: Client
    local: LocalSpec
    inputs: InputSpec
    trial: Trial


def read_cells(path: Path = CELLS) -> dict[str, Cell]:
    """Return the cells of a file by name.

    Raises:
        ConfigError: If a cell has an unknown field or scaling, or a name comes twice.
    """
    known = {f.name for f in fields(Cell)}
    cells: dict[str, Cell] = {}
    for table in tomllib.loads(path.read_text())["cells"]:
        if unknown := sorted(set(table) - known):
            raise ConfigError(f"Fields of a cell should be among {sorted(known)}. Found {unknown}.")
        cell = Cell(**table)
        if cell.scaling not in SCALINGS or cell.name in cells:
            raise ConfigError(
                f"Cell '{cell.name}' should be there once, with a scaling of {SCALINGS}. "
                f"Found '{cell.scaling}'."
            )
        LocalSpec(**cell.local)  # its errors should show before anything runs
        cells[cell.name] = cell
    return cells


def late_clients(count: int, slow: int) -> tuple[int, ...]:
    """Return the indices of late clients, one in each of `slow` equal parts of the clients.

    Their place within the part moves on by one, since a client's class is its index modulo
    the number of classes where clients have one class each.

    Example:
        >>> late_clients(20, 4)
        (0, 6, 12, 18)
    """
    each = count // slow
    return tuple(k * each + k % each for k in range(slow))


def scaled(x: Tensor, cell: Cell, part: Part) -> tuple[Tensor, float | None, float | None]:
    """Return inputs in the scaling of a cell, and their bounds."""
    bounds = torch.tensor([part.low, part.high])
    if cell.scaling == "published" and cell.data == "hapt":
        mean, deviation = (torch.tensor(v).unsqueeze(1) for v in (HAPT_MEAN, HAPT_DEVIATION))
        return x * deviation + mean, None, None
    sensors = cell.data not in MOMENTS
    if cell.scaling == "published" or (cell.scaling == "standardised" and sensors):
        return x, part.low, part.high

    def change(values: Tensor) -> Tensor:
        unit = (values - part.low) / (part.high - part.low)
        if cell.scaling == "signed":
            return 2 * unit - 1
        if cell.scaling == "standardised":
            mean, deviation = MOMENTS[cell.data]
            return (unit - mean) / deviation
        return unit

    low, high = change(bounds).tolist()
    return change(x).clamp(low, high), low, high


def partition_of(cell: Cell) -> Partition:
    """Return how the data is split over clients."""
    kind, count, samples = (cell.clients[key] for key in ("kind", "count", "samples"))
    if kind == "one_class":
        return OneClass(count, samples)
    if kind == "dirichlet":
        return DirichletLabels(count, samples, cell.clients["alpha"])
    if kind == "user":
        return ByUser(min_samples=samples, max_samples=samples)
    raise ConfigError(f"Clients should be one_class, dirichlet or user. Found '{kind}'.")


def prepare(cell: Cell, seed: int, source: Path | None, device: torch.device | str) -> Ready:
    """Return a cell with its data and initial weights.

    Args:
        cell: What to make ready.
        seed: Seeds the split over clients and the initial weights.
        source: As in `load_part`.
        device: Where to train.
    """
    part = load_part(cell.data, source)
    x, low, high = scaled(part.x, cell, part)
    x_test, _, _ = scaled(part.x_test, cell, part)
    users = None if part.users is None else part.users.numpy()
    rows = partition_of(cell).split(part.y.numpy(), users, seed)[: cell.clients["count"]]
    shape = tuple(x.shape[1:])
    model = models.build(
        cell.model, shape, part.classes, seed=derive(seed, "model"), **cell.settings
    ).to(device)
    return Ready(
        model=model,
        start={name: p.detach().clone() for name, p in model.named_parameters()},
        clients=[Client(x[r].to(device), part.y[r].to(device)) for r in rows],
        test=Client(x_test.to(device), part.y_test.to(device)),
        local=LocalSpec(**cell.local),
        inputs=InputSpec(shape, part.classes, low, high),
        trial=cell.trial(seed),
    )
