"""Who holds which samples: the ways to split a data set over clients.

Every kind returns one array of sample indices per client. No sample goes to two
clients, no client is empty, and a seed gives the same split every time.
"""

from unstale.sim.partition.base import Floats, Indices, Partition
from unstale.sim.partition.by_user import ByUser
from unstale.sim.partition.dirichlet import DirichletClients, DirichletLabels
from unstale.sim.partition.holdings import histogram, holders
from unstale.sim.partition.iid import Iid
from unstale.sim.partition.one_class import OneClass

# In plain alphabetical order, as in every area; ruff would put the constant first.
__all__ = [  # noqa: RUF022
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
}
"""The partitions by the name that an experiment file gives as `kind`."""
