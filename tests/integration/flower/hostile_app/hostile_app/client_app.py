"""A node: honest, unless its own configuration says otherwise."""

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from hostile_app import honest
from hostile_app.attacks import ATTACKS, Work

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do honest work; a hostile node spoils it, each round in another way."""
    content, partition = message.content, int(context.node_config["partition-id"])
    received = {name: array.numpy() for name, array in content["arrays"].items()}
    work = Work(
        honest.trained(received, partition),
        honest.num_examples(partition),
        int(content["config"]["unstale-version"]),
        Path(str(context.run_config["marker"])),
    )
    turn = int(content["config"]["server-round"]) - 1
    hostile = bool(context.node_config.get("hostile", False)) and turn < len(ATTACKS)
    return Message(ATTACKS[turn](work) if hostile else work.reply(), reply_to=message)
