"""Clients in memory: they get a message's arrays and answer as told, honestly or not."""

import io

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from pretend_grid import PretendClock, PretendGrid
from torch import nn

from unstale.flower import ClosePolicy, LateGrid


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


class WatchableGrid(LateGrid):
    """A LateGrid whose nodes and clock a test can look at and change."""

    def __init__(self, below, close, **options):
        super().__init__(below, close, clock=below.clock, **options)
        self.below = below
        self.clock = below.clock


def late_grid(seconds, clients=(), close=None, **options):
    """A LateGrid around such nodes, on a clock that moves only while it waits."""
    below = ClientsGrid(PretendClock(), seconds, clients)
    return WatchableGrid(below, close or ClosePolicy(), **options)
