"""Lateness for simulations: who should be late, and by how many rounds. A deployment needs none.

A simulated node must not sleep, because it would hold a place on the simulator's machine. So
the server holds back its answers instead, and must know which nodes to be patient with.
"""

import time
from collections.abc import Callable

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from slow_nodes import task


def rounds_late(partition: int, partitions: int, config: task.Config) -> int:
    """Return how late a node is: slow ones from half to one and a half of `late-rounds`.

    Were all equally slow, they would answer all at once, again and again.
    """
    if not task.is_slow(partition, partitions, config):
        return 0
    slow, typical = int(config["slow-nodes"]), int(config["late-rounds"])
    place = partition - (partitions - slow)
    return max(1, round(typical * (0.5 + (place + 0.5) / slow)))


def delays(grid: Grid, config: task.Config) -> Callable[[int], int] | None:
    """Ask every node for its partition; return by how many rounds each node is to be late."""
    if not int(config["late-rounds"]):
        return None
    while len(nodes := list(grid.get_node_ids())) < int(config["min-nodes"]):
        time.sleep(0.2)  # the server is there before its nodes
    questions = [
        Message(content=RecordDict(), dst_node_id=node, message_type=MessageType.QUERY)
        for node in nodes
    ]
    late = {}
    for answer in grid.send_and_receive(questions):
        node = answer.content["node"]
        late[answer.metadata.src_node_id] = rounds_late(
            int(node["partition-id"]), int(node["num-partitions"]), config
        )
    return lambda node_id: late.get(node_id, 0)
