"""Data, model and training, as in any Flower app. Nothing here knows how the server works."""

from collections.abc import Mapping
from functools import cache

import torch
from torch.nn import functional as F

from unstale import InputSpec, LocalSpec, data, models

Config = Mapping[str, bool | float | int | str]


@cache
def load_data(name: str, model: str, root: str) -> data.Dataset:
    """Read a data set once per process; digits are enlarged where the model is LeNet."""
    found = data.load(name, root or None)
    if model != "lenet" or min(found.input_shape[1:]) >= 16:
        return found

    def enlarge(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=(28, 28), mode="bilinear").clamp(found.low, found.high)

    return data.Dataset(
        name, enlarge(found.x_train), found.y_train, enlarge(found.x_test), found.y_test,
        found.classes, found.low, found.high,
    )  # fmt: skip


def dataset(config: Config) -> data.Dataset:
    """Return the data set of a run config."""
    return load_data(str(config["data"]), str(config["model"]), str(config["data-root"]))


def build_model(config: Config) -> torch.nn.Module:
    """Return the model of a run config; its first weights depend on the seed alone."""
    found = dataset(config)
    return models.build(
        str(config["model"]), found.input_shape, found.num_classes, seed=int(config["seed"])
    )


def is_slow(partition: int, partitions: int, config: Config) -> bool:
    """Return whether a node is one of the slow ones: the last by partition-id."""
    return partition >= partitions - int(config["slow-nodes"])


def partition_indices(partition: int, partitions: int, config: Config) -> torch.Tensor:
    """Return which samples a node holds. Slow nodes share one class, the others the rest.

    With at least as many fast nodes as other classes each holds one class, otherwise each
    holds several. No sample is on two nodes.
    """
    found, affected = dataset(config), int(config["affected-class"])
    slow = int(config["slow-nodes"])
    fast = partitions - slow
    if is_slow(partition, partitions, config):
        classes, sharers, turn = [affected], slow, partition - fast
    else:
        others = [label for label in range(found.num_classes) if label != affected]
        groups = min(fast, len(others))
        classes = others[partition % groups :: groups]
        sharers, turn = len(range(partition % groups, fast, groups)), partition // groups
    order = torch.Generator().manual_seed(int(config["seed"]))
    shuffled = torch.randperm(len(found.y_train), generator=order)
    held = torch.isin(found.y_train[shuffled], torch.tensor(classes))
    return shuffled[held][turn::sharers][: int(config["samples-per-node"])]


def load_partition(
    partition: int, partitions: int, config: Config
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one node's samples."""
    found, mine = dataset(config), partition_indices(partition, partitions, config)
    return found.x_train[mine], found.y_train[mine]


def train(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, config: Config) -> float:
    """Take full-batch steps with SGD; return the last loss."""
    optimizer = torch.optim.SGD(
        model.parameters(), lr=float(config["lr"]), momentum=float(config["momentum"])
    )
    loss = torch.zeros(())
    for _ in range(int(config["local-epochs"])):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def recipe(config: Config) -> tuple[LocalSpec, InputSpec]:
    """Say for the server how nodes train, as `train` does it, and what an input looks like."""
    found = dataset(config)
    local = LocalSpec(
        lr=float(config["lr"]),
        momentum=float(config["momentum"]),
        epochs=int(config["local-epochs"]),
    )
    return local, InputSpec(
        shape=found.input_shape, classes=found.num_classes, low=found.low, high=found.high
    )


def about(config: Config) -> dict[str, object]:
    """Say for the report's page what is learnt, and which class is the one to look at."""
    found, affected, slow = dataset(config), int(config["affected-class"]), config["slow-nodes"]
    return {
        "title": "Slow nodes on Flower",
        "description": f"The slow nodes ({slow}) alone hold the class {found.classes[affected]}.",
        "data": {"name": str(config["data"])},
        "evaluate": {"affected": [affected], "target": 0.8},
    }


def test(model: torch.nn.Module, config: Config) -> dict[str, float]:
    """Return the accuracy over the test part, and in the affected class."""
    found = dataset(config)
    with torch.no_grad():
        right = (model(found.x_test).argmax(dim=1) == found.y_test).float()
    affected = right[found.y_test == int(config["affected-class"])]
    return {"accuracy": float(right.mean()), "affected_accuracy": float(affected.mean())}
