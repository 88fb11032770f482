"""LateGrid in Flower's own simulation: lateness emulated, errors and evaluation real."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import unstale

SCRIPT = """
import json, sys
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from unstale.flower import ClosePolicy, LateGrid

client, server = ClientApp(), ServerApp()


def answer(message, context, value):
    partition = context.node_config["partition-id"]
    metrics = MetricRecord({"num-examples": 1, "partition": partition, "value": value})
    content = RecordDict({"metrics": metrics})
    if message.metadata.message_type == MessageType.TRAIN:
        content["arrays"] = message.content["arrays"]
    return Message(content, reply_to=message)


@client.train()
def train(message, context):
    value = float(message.content["arrays"].to_numpy_ndarrays()[0][0])
    if context.node_config["partition-id"] == 3 and value == 2.0:
        raise RuntimeError("on purpose")
    return answer(message, context, value)


@client.evaluate()
def evaluate(message, context):
    return answer(message, context, 7.0)


@client.query()
def query(message, context):
    return answer(message, context, 0.0)


def weights(value):
    return ArrayRecord([np.full(3, value, dtype=np.float32)])


@server.main()
def main(grid, context):
    found = {"rounds": [], "told": []}
    late = LateGrid(grid)
    nodes = late.wait_for_nodes(4, timeout=600)
    asked = late.send_and_receive([Message(RecordDict(), n, MessageType.QUERY) for n in nodes])
    partition = {m.metadata.src_node_id: m.content["metrics"]["partition"] for m in asked}

    delays = {0: 0, 1: 0, 2: 2, 3: 0}
    late = LateGrid(grid, ClosePolicy(deadline=600),
                    delay=lambda node: delays[partition[node]],
                    on_reply=lambda a: found["told"].append(partition[a.ticket.node_id]))
    for version in range(6):
        messages = []
        for node in late.idle_nodes():
            content = RecordDict({"arrays": weights(float(version)),
                                  "unstale": ConfigRecord({"unstale-version": version})})
            messages.append(Message(content, node, MessageType.TRAIN))
        came = []
        for reply in late.send_and_receive(messages):
            a = late.arrival_of(reply)
            # What the client saw is what the ticket says.
            seen = reply.content["metrics"]["value"] if reply.has_content() else None
            came.append([partition[a.ticket.node_id], a.outcome, a.rounds_late,
                         a.ticket.version, seen])
        found["rounds"].append(sorted(came))
    found["counts"] = dict(late.counts)
    found["ttl"] = messages[0].metadata.ttl

    # Flower's own strategy on it, its loop and its evaluation untouched.
    late = LateGrid(grid, delay=lambda node: delays[partition[node]])
    strategy = FedAvg(min_available_nodes=4, weighted_by_key="num-examples")
    result = strategy.start(grid=late, initial_arrays=weights(5.0), num_rounds=3)
    found["fedavg"] = {
        "rounds": late.round,
        "arrays": result.arrays.to_numpy_ndarrays()[0].tolist(),
        "evaluated": sorted(result.evaluate_metrics_clientapp),
    }
    json.dump(found, open(sys.argv[1], "w"))


if __name__ == "__main__":
    run_simulation(server, client, num_supernodes=4,
                   backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0}})
"""


@pytest.mark.skipif(importlib.util.find_spec("flwr") is None, reason="Flower is not installed")
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_late_replies_come_out_in_their_round(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    # Without this file Ray asks a cloud's metadata address where it is.
    (home / "ray_bootstrap_config.yaml").write_text("{}\n")
    script, answer = tmp_path / "script.py", tmp_path / "answer.json"
    script.write_text(SCRIPT)
    # Short, since Ray's sockets lie in it and their paths may have a hundred characters.
    place = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
    environment = {
        **os.environ,
        "HOME": str(home),
        "FLWR_HOME": str(home / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Else Ray looks up the route to 8.8.8.8 for an address of its own.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_TMPDIR": place.name,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(unstale.__file__).parents[1]),
    }
    # Ray ends its own processes when the driver ends, also when it is killed.
    with place:
        done = subprocess.run(
            [sys.executable, str(script), str(answer)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert answer.exists(), done.stderr[-3000:]
    found = json.loads(answer.read_text())

    def fresh(version, *partitions):
        return [[p, "answered", 0, version, float(version)] for p in partitions]

    # Partition 2 is asked in rounds 1 and 4 (versions 0 and 3), and out two rounds later.
    assert found["rounds"] == [
        fresh(0, 0, 1, 3),
        fresh(1, 0, 1, 3),
        [*fresh(2, 0, 1), [2, "answered", 2, 0, 0.0], [3, "failed", 0, 2, None]],
        fresh(3, 0, 1, 3),
        fresh(4, 0, 1, 3),
        [*fresh(5, 0, 1), [2, "answered", 2, 3, 3.0], *fresh(5, 3)],
    ]
    assert found["counts"] == {"answered": 19, "failed": 1}
    assert sorted(found["told"]) == [0] * 6 + [1] * 6 + [2] * 2 + [3] * 5
    assert found["ttl"] > 50 * 365 * 86_400
    assert found["fedavg"] == {"rounds": 3, "arrays": [5.0] * 3, "evaluated": [1, 2, 3]}
