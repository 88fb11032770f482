"""A ClientApp that trains in NumPy, and fails when it is told to."""

import os
import signal
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from probing_app.fingerprint import fingerprint, write

from blobs_app import task
from blobs_app.orders import dawdle, take_order

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on this node's blobs; write down what came and what went."""
    trace, number = Path(str(context.run_config["trace"])), int(context.node_config["partition-id"])
    received = message.content["arrays"]
    facts = {
        "node": str(context.node_id),
        "partition": number,
        "received": fingerprint(received),
        "pid": os.getpid(),
    }
    name = f"work-{message.metadata.message_id}"
    write(trace, name, facts)
    order = take_order(trace, number)
    if order == "raise":
        raise RuntimeError("As it was told.")
    if order == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    weights = task.train({key: array.numpy() for key, array in received.items()}, number)
    dawdle(trace, facts["received"], int(context.node_config.get("slow-rounds", 0)))
    arrays = ArrayRecord({key: Array(np.asarray(value)) for key, value in weights.items()})
    write(trace, name, {**facts, "sent": fingerprint(arrays)})
    examples = len(task.partition(number)[1])
    content = {"arrays": arrays, "metrics": MetricRecord({"num-examples": examples})}
    return Message(content=RecordDict(content), reply_to=message)
