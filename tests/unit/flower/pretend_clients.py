"""Clients in memory: they get a message's arrays and answer as told, honestly or not."""

import io

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from pretend_grid import PretendClock, PretendGrid
from torch import nn

from unstale.flower import Closing, LateGrid


@pytest.fixture
def in_a_run():
    """Flower makes messages only within a run."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 3
    yield
    TaskIdentity._run_id = TaskIdentity._node_id = TaskIdentity._task_id = None


def small_model():
    model = nn.Linear(2, 1).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -0.25]]))
        model.bias.copy_(torch.tensor([0.125]))
    return model


def moved_by(node, version):
    """What an honest client adds to each weight: its own for every node and version."""
    return 2.0 ** -(node % 7) + version / 64


def examples_of(node):
    return 10 + node % 5


def npy(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def reply(arrays, num_examples=10, **metrics):
    return RecordDict(
        {
            "arrays": ArrayRecord(arrays),
            "metrics": MetricRecord({"num-examples": num_examples, **metrics}),
        }
    )


def honest(message):
    """Train: every weight moves by a number that tells node and version."""
    node = message.metadata.dst_node_id
    version = message.content["config"]["unstale-version"]
    weights = message.content["arrays"].to_torch_state_dict()
    moved = {n: Array((w + moved_by(node, version)).numpy()) for n, w in weights.items()}
    return reply(moved, examples_of(node), loss=float(version))


def sends(**changes):
    """A client that trains honestly and then puts other arrays into its reply."""

    def client(message):
        content = honest(message)
        for name, array in changes.items():
            content["arrays"][name] = array
        return content

    return client


def claims(num_examples):
    def client(message):
        content = honest(message)
        content["metrics"]["num-examples"] = num_examples
        return content

    return client


def lies_about_version(message):
    content = honest(message)
    content["unstale"] = ConfigRecord({"unstale-version": 99})
    return content


class ClientsGrid(PretendGrid):
    """A PretendGrid whose nodes answer what their clients make of a message."""

    def __init__(self, clock, seconds, clients=()):
        super().__init__(clock, seconds)
        self.clients = dict(clients)

    def pull_messages(self, message_ids):
        asked = {m.metadata.message_id: m for m in self.pushed}
        replies = super().pull_messages(message_ids)
        for one in replies:
            if one.has_content():
                sent = asked[one.metadata.reply_to_message_id]
                client = self.clients.get(sent.metadata.dst_node_id, honest)
                if sent.metadata.message_type == "evaluate":
                    one.content = RecordDict({"m": MetricRecord({"num-examples": 4, "f1": 0.5})})
                else:
                    one.content = client(sent)
        return replies


def late_grid(seconds, clients=(), closing=None, **options):
    """A LateGrid around such nodes, on a clock that moves only while it waits."""
    clock = PretendClock()
    grid = ClientsGrid(clock, seconds, clients)
    return LateGrid(grid, closing or Closing(), clock=clock, **options)
