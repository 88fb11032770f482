"""What nodes do in `flower_rounds.py`: a few steps on samples that they make up."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch.nn import functional as F

import unstale as us
from unstale import models

CLASSES = 10
LOCAL = us.LocalSpec(lr=0.05, momentum=0.5, epochs=5)
# What nodes train: name of the model, shape of an input, samples of a node.
TASKS = {"lenet": ((1, 28, 28), 40), "mlp": ((64,), 10)}


def samples(task: str, partition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a node's samples: noise around the mean of its one class. Speed is all we look at."""
    shape, many = TASKS[task]
    label = partition % CLASSES
    mean = torch.rand(shape, generator=torch.Generator().manual_seed(label))
    noise = torch.rand(many, *shape, generator=torch.Generator().manual_seed(100 + partition))
    return 0.7 * mean + 0.3 * noise, torch.full((many,), label)


def model_of(task: str) -> torch.nn.Module:
    """Return a model with weights that depend on nothing but its name."""
    if task == "lenet":
        return models.build("lenet", TASKS[task][0], CLASSES, seed=0)
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, CLASSES)
    )


client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Five full-batch steps."""
    task = str(message.content["config"]["task"])
    model = model_of(task)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = samples(task, int(context.node_config["partition-id"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=LOCAL.lr, momentum=LOCAL.momentum)
    for _ in range(LOCAL.epochs):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@client_app.query()
def query(message: Message, context: Context) -> Message:
    """Say which partition this is."""
    partition = ConfigRecord({"partition-id": int(context.node_config["partition-id"])})
    return Message(content=RecordDict({"node": partition}), reply_to=message)
