"""The same updates once more, in one process that nobody kills: what the model should be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from blobs_app import server_app, task
from flwr.app import ArrayRecord
from probing_app.fingerprint import fingerprint
from records import Records

import unstale as us


@dataclass(frozen=True)
class Made:
    """How one version was made."""

    updates: Sequence[tuple[str, int]]
    """Its updates: of whom, and on which version the work was based."""
    absent: Sequence[str] = ()
    """Who was drawn for its round and could not be asked."""


Schedule = Sequence[Made]


def schedule_of(records: Records) -> Schedule:
    """Return what the event log says of a run."""
    return [
        Made([(n, base) for n, base in e["updates"]], e.get("absent", ()))
        for e in records.events("version")
    ]


def undisturbed(rounds: int, late: int) -> Schedule:
    """Return a run without any crash: the last partition answers `late` versions late."""
    made = []
    for version in range(1, rounds + 1):
        updates = [("0", version - 1), ("1", version - 1)]
        if version % (late + 1) == 0:
            updates.append(("2", version - 1 - late))
        made.append(Made(updates, ["2"] if version % (late + 1) != 1 else []))
    return made


def replay(
    schedule: Schedule, partition_of: Mapping[str, int], method: str
) -> tuple[list[str], dict[str, float]]:
    """Return the fingerprint of each version, and the accuracy of the last."""
    server = us.Server(
        server_app.build_model(), method=method, local=server_app.LOCAL, inputs=server_app.SEEN
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the ServerApp: bits depend on it
    try:
        weights = [server.params]
        for version, round_ in enumerate(schedule, start=1):
            asked = {n for later in schedule for n, base in later.updates if base == version - 1}
            for node in sorted(asked):
                server.check_out(node)
            for node, base in round_.updates:
                update = _update(node, base, weights[base], partition_of[node])
                assert server.submit(update).accepted
            server.step(round_.absent)
            weights.append(server.params)
    finally:
        torch.set_num_threads(threads)
    made = [fingerprint(ArrayRecord({**w})) for w in weights]  # a dict, as a model's state is
    return made, task.accuracy({name: w.numpy() for name, w in weights[-1].items()})


def _update(node: str, base: int, weights: us.Params, partition: int) -> us.Update:
    sent = task.train({name: w.numpy() for name, w in weights.items()}, partition)
    delta = {name: torch.from_numpy(value) - weights[name] for name, value in sent.items()}
    return us.Update(node, base, delta, len(task.partition(partition)[1]))
