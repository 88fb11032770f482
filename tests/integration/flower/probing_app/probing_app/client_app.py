"""The example's ClientApp with a record of what came and what went."""

import dataclasses
import json
import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from slow_nodes import client_app

from probing_app.fingerprint import fingerprint, write


def record(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Write down what a node was given and what it answered."""
    facts = {
        "node": str(context.node_id),
        "partition": context.node_config["partition-id"],
        "received": fingerprint(message.content["arrays"]),
    }
    trace, name = Path(str(context.run_config["trace"])), f"work-{message.metadata.message_id}"
    write(trace, name, facts)
    reply = call_next(message, with_odd_lr(context))
    dawdle(trace, facts["received"], int(context.node_config.get("slow-rounds", 0)))
    write(trace, name, {**facts, "sent": fingerprint(reply.content["arrays"])})
    # What the server's own function of metrics should see as it was sent.
    reply.content["metrics"]["twice"] = [1.0, 2.0]
    reply.content["site"] = ConfigRecord({"node": facts["node"]})
    return reply


def with_odd_lr(context: Context) -> Context:
    """Return the context with another learning rate, if this is the partition that has one."""
    config = context.run_config
    if int(context.node_config["partition-id"]) != int(config["odd-partition"]):
        return context
    lr = float(config["lr"]) * float(config["odd-factor"])
    return dataclasses.replace(context, run_config={**config, "lr": lr})


def dawdle(trace: Path, received: str, rounds: int) -> None:
    """Answer only once the world is so many versions further: lateness on any machine."""
    if not rounds:
        return
    base = next(
        int(path.stem.split("-")[1])
        for path in trace.glob("version-*.json")
        if json.loads(path.read_text())["weights"] == received
    )
    while not (trace / f"version-{base + rounds}.json").exists():
        time.sleep(0.1)


app = ClientApp(mods=[record])
app.train()(client_app.train)
