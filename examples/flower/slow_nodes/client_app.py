"""A plain Flower ClientApp: it would be the same with Flower's FedAvg."""

import time

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from slow_nodes import task

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model that came on this node's data and send it back."""
    model = task.build_model(context.run_config)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = task.load_partition(*_partition(context), context.run_config)
    loss = task.train(model, x, y, context.run_config)
    # A slow device, by its own configuration: `--node-config 'slow-seconds=30 ...'`.
    time.sleep(float(context.node_config.get("slow-seconds", 0)))
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": len(y), "loss": loss}),
        }
    )
    return Message(content=content, reply_to=message)


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say which partition this is. A simulation asks, to know whose answers to hold back."""
    partition, partitions = _partition(context)
    record = ConfigRecord({"partition-id": partition, "num-partitions": partitions})
    return Message(content=RecordDict({"node": record}), reply_to=message)


def _partition(context: Context) -> tuple[int, int]:
    config = context.node_config
    return int(config["partition-id"]), int(config["num-partitions"])
