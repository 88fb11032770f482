"""The table `[optimizer]` of an experiment: the server optimizer and its settings."""

from unstale.experiment.strict import build, checked_table, known_name
from unstale.methods import SERVER_OPTIMIZERS, Plain, ServerOptimizer
from unstale.methods.server_optimizer_registry import as_server_optimizer


def parse_optimizer(value: object) -> ServerOptimizer:
    """Return the server optimizer that an experiment names.

    Args:
        value: A name, a table with `name` and settings, an object from Python, or None for the
            plain one.

    Raises:
        ConfigError: If a name or a setting is wrong; suggests the nearest.

    Example:
        >>> parse_optimizer({"name": "fedavgm", "lr": 1})
        FedAvgM(lr=1.0, momentum=0.9)
    """
    if value is None:
        return Plain()
    if isinstance(value, str):
        value = {"name": value}
    elif isinstance(value, ServerOptimizer):
        return as_server_optimizer(value)
    table = dict(checked_table(value, "optimizer"))
    name = known_name(table.pop("name", None), tuple(SERVER_OPTIMIZERS), "optimizer.name")
    made: ServerOptimizer = build(SERVER_OPTIMIZERS[name].cls, table, "optimizer")
    return made
