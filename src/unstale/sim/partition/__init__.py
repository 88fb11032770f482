"""Partitions: how a data set is split over clients.

Every partition returns one array of sample indices per client. No sample is on two
clients, no client is empty, and the split depends on the seed only.
"""

from unstale.sim.partition.base import Floats, Indices, Partition, histogram, holders
from unstale.sim.partition.by_file import ByFile
from unstale.sim.partition.by_user import ByUser
from unstale.sim.partition.dirichlet import DirichletClients, DirichletLabels
from unstale.sim.partition.iid import Iid
from unstale.sim.partition.one_class import OneClass

# Sorted alphabetically, as in every area; ruff would put the constant first.
__all__ = [  # noqa: RUF022
    "ByFile",
    "ByUser",
    "DirichletClients",
    "DirichletLabels",
    "Floats",
    "Iid",
    "Indices",
    "KINDS",
    "OneClass",
    "Partition",
    "histogram",
    "holders",
]

KINDS: dict[str, type[Partition]] = {
    "dirichlet": DirichletLabels,
    "dirichlet_clients": DirichletClients,
    "one_class": OneClass,
    "user": ByUser,
    "iid": Iid,
    "csv": ByFile,
}
"""Partitions by their `kind` in experiment files."""
