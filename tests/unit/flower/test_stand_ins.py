"""Nodes that a round drew but could not ask, and what the server makes in their place."""

import json

import pytest
from pretend_clients import examples_of, late_grid, moved_by, small_model
from strategy_runs import events_of, of_kind

import unstale as us
from unstale.flower import ClosePolicy, Cohort, Unstale

pytestmark = pytest.mark.usefixtures("in_a_run")

FAST, SLOW = (3, 4), 5
LATE = 2


def run(folder, grid, rounds, method="memory", *, resume=False, evaluate=None, **options):
    it = Unstale(small_model(), method, folder=folder, **options)
    it.start(grid, num_rounds=rounds, resume=resume, evaluate_fn=evaluate)
    return it.server


def nodes(late=LATE):
    return late_grid(
        dict.fromkeys((*FAST, SLOW), 0.01), delay=lambda node: late if node == SLOW else 0
    )


def asked(grid, node):
    sent = [m for m in grid.below.pushed if m.metadata.dst_node_id == node]
    return [m.content["config"]["unstale-version"] for m in sent]


def of_versions(folder, key):
    return [event[key] for event in of_kind(folder, "version")]


def lines_of(folder):
    (path,) = (folder / "rounds").rglob("seed-*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected_bias(folder):
    """What the events say the model is, with each stand-in a node's last update."""
    bias, last = small_model().bias.item(), {}
    for event in of_kind(folder, "version"):
        last |= dict(event["updates"])
        both = [*event["updates"], *([node, last[node]] for node in event["stand_ins"])]
        moved = [(examples_of(int(n)), moved_by(int(n), base)) for n, base in both]
        bias += sum(k * m for k, m in moved) / sum(k for k, _ in moved)
    return bias


def test_a_busy_node_is_absent_and_stood_in_for_once_it_has_answered(tmp_path):
    grid = nodes()
    server = run(tmp_path, grid, 8)
    # Asked in rounds 1, 4 and 7; its answers take part in rounds 3 and 6.
    assert asked(grid, SLOW) == [0, 3, 6]
    busy, here = [str(SLOW)], []
    # They do so in rounds that had drawn it, so it is stood in for when it is asked again, too.
    assert of_versions(tmp_path, "absent") == [here, busy, here, busy, busy, here, busy, busy]
    assert of_versions(tmp_path, "stand_ins") == [here] * 3 + [busy, busy, here, busy, busy]
    assert server.params["bias"].item() == pytest.approx(expected_bias(tmp_path), abs=1e-12)


def test_a_stand_in_is_no_update_of_the_node(tmp_path):
    run(tmp_path, nodes(), 8)
    updates = [tuple(update) for some in of_versions(tmp_path, "updates") for update in some]
    assert len(updates) == len(set(updates)) == 8 * 2 + 2
    accepted = {(e["node"], e["base_version"]) for e in of_kind(tmp_path, "accepted")}
    assert set(updates) <= accepted
    line = lines_of(tmp_path)[4]
    assert (line["absent"], line["arrivals"]) == (1, 2)
    assert line["stand_ins"] == [{"client": str(SLOW), "age": 4, "weight": 1.0}]


def test_its_own_answer_goes_before_a_stand_in(tmp_path):
    """In round 6 the slow node is drawn while it works, and then its answer comes."""
    run(tmp_path, nodes(), 6)
    last = of_kind(tmp_path, "version")[-1]
    assert [str(SLOW), 3] in last["updates"]
    assert (last["absent"], last["stand_ins"]) == ([], [])


def test_without_a_method_that_stands_in_nothing_is_added(tmp_path):
    run(tmp_path, nodes(), 5, "unweighted")
    assert of_versions(tmp_path, "stand_ins") == [[]] * 5
    assert of_versions(tmp_path, "absent")[4] == [str(SLOW)]


def test_a_node_that_left_is_stood_in_for_until_it_is_too_long_ago(tmp_path):
    grid = late_grid(dict.fromkeys((*FAST, SLOW), 0.01))

    def leave(version, arrays):
        if version == 2:
            grid.below.offline = {SLOW}

    run(tmp_path, grid, 8, us.method("memory", max_age=4), evaluate=leave)
    gone = [str(SLOW)]
    # Its last update is based on version 1, and round 6 begins with version 5.
    assert of_versions(tmp_path, "stand_ins") == [[], [], gone, gone, gone, gone, [], []]
    assert of_versions(tmp_path, "absent") == of_versions(tmp_path, "stand_ins")
    assert asked(grid, SLOW) == [0, 1]


def test_a_node_that_left_and_is_back_is_asked(tmp_path):
    grid = late_grid(dict.fromkeys((*FAST, SLOW), 0.01))

    def leave(version, arrays):
        grid.below.offline = {SLOW} if version in (2, 3) else set()

    run(tmp_path, grid, 5, evaluate=leave)
    assert of_versions(tmp_path, "stand_ins") == [[], [], [str(SLOW)], [str(SLOW)], []]
    assert asked(grid, SLOW) == [0, 1, 4]


def test_a_node_that_gets_no_message_is_absent(tmp_path):
    """It is still listed as connected, but the SuperLink refuses messages to it."""
    grid = late_grid(dict.fromkeys((*FAST, SLOW), 0.01))

    def refuse(version, arrays):
        grid.below.unknown = {SLOW} if version == 2 else set()

    server = run(tmp_path, grid, 4, evaluate=refuse)
    assert of_versions(tmp_path, "stand_ins") == [[], [], [str(SLOW)], []]
    assert server.outstanding == []


def test_a_really_slow_node_is_stood_in_for_while_it_works(tmp_path):
    grid = late_grid({3: 1.0, 4: 1.0, SLOW: 3.5}, close=ClosePolicy(fraction=0.6))
    server = run(tmp_path, grid, 12)
    slow = str(SLOW)
    events = of_kind(tmp_path, "version")
    assert sum(slow in e["stand_ins"] for e in events) >= 4
    # From its first answer on it takes part once in each round, as it would if it were fast.
    turns = [[node for node, _ in e["updates"]] + e["stand_ins"] for e in events]
    first = next(i for i, nodes_here in enumerate(turns) if slow in nodes_here)
    assert first < 6
    assert [nodes_here.count(slow) for nodes_here in turns[first:]] == [1] * (12 - first)
    assert server.params["bias"].item() == pytest.approx(expected_bias(tmp_path), abs=1e-12)


def test_nobody_is_stood_in_for_if_none_of_the_asked_has_answered_yet(tmp_path):
    """A round that closes by its deadline: one stand-in alone would be the whole average."""
    late = lambda node: LATE if node == SLOW else 0  # noqa: E731
    seconds = dict.fromkeys((*FAST, SLOW), 0.01)
    grid = late_grid(seconds, close=ClosePolicy(deadline=5.0), delay=late)

    def stall(version, arrays):
        grid.below.seconds |= dict.fromkeys(FAST, 7.0 if version == 4 else 0.01)

    run(tmp_path, grid, 8, evaluate=stall)
    events = of_kind(tmp_path, "version")
    assert events[4]["updates"] == []
    assert (events[4]["absent"], events[4]["stand_ins"], events[4]["changed"]) == ([], [], False)
    assert any(event["stand_ins"] for event in events[5:])


class DiedError(Exception):
    """Stands for a process that dies while it evaluates: its round is not written down."""


def dies_in(round):
    def evaluate(version, arrays):
        if version == round:
            raise DiedError

    return evaluate


@pytest.mark.parametrize("round", range(1, 9))
@pytest.mark.parametrize("answered", ["all", "half"])
def test_a_resumed_round_has_the_same_cohort_and_stand_ins(round, answered, tmp_path):
    many = tuple(range(3, 13))
    cohort = Cohort(fraction_train=0.5, min_train_nodes=2)

    def grid():
        return late_grid(dict.fromkeys(many, 0.01), delay=lambda node: (node % 3) * 2)

    whole = run(tmp_path / "whole", grid(), 10, cohort=cohort)
    folder = tmp_path / "killed"
    with pytest.raises(DiedError):
        run(folder, grid(), 10, evaluate=dies_in(round), cohort=cohort)
    if answered == "half":  # the others had not answered in this round when the process died
        for path in sorted((folder / "journal").glob(f"{round - 1:010d}-*"))[::2]:
            path.unlink()
            cut_off_accepted(folder, path.stem)
    again = run(folder, grid(), 10, resume=True, cohort=cohort)
    for key in ("absent", "stand_ins"):
        assert of_versions(folder, key) == of_versions(tmp_path / "whole", key), key
    assert any(of_versions(folder, "stand_ins"))
    updates = [sorted(some) for some in of_versions(folder, "updates")]
    assert updates == [sorted(some) for some in of_versions(tmp_path / "whole", "updates")]
    assert again.params["bias"].item() == whole.params["bias"].item()


@pytest.mark.parametrize(("emulated", "wanted"), [(True, [3]), (False, [1, 2, 3, 4])])
def test_an_answer_that_came_between_rounds_frees_its_node_as_in_the_dead_process(
    emulated, wanted, tmp_path
):
    """With emulated lateness it counts as working until its round, without it is idle at once."""

    def grid():
        delay = (lambda node: 2 * (node == SLOW)) if emulated else None
        close = ClosePolicy(fraction=0.6)
        return late_grid({**dict.fromkeys(FAST, 0.01), SLOW: 5.0}, close=close, delay=delay)

    first = grid()

    def passes(version, arrays):
        first.clock.now += 10.0
        dies_in(3 if emulated else 2)(version, arrays)

    with pytest.raises(DiedError):
        run(tmp_path, first, 5, evaluate=passes)
    assert asked(first, SLOW) == ([0] if emulated else [0, 1])
    again = grid()

    def passes_again(version, arrays):
        again.clock.now += 10.0

    run(tmp_path, again, 5, resume=True, evaluate=passes_again)
    assert asked(again, SLOW) == wanted


def cut_off_accepted(folder, name):
    """Take the event of an update out of the log, as if it had never come."""
    base, node = int(name.split("-")[0]), name.split("-")[1]
    kept = [
        event
        for event in events_of(folder)
        if (event["event"], event.get("node"), event.get("base_version"))
        != ("accepted", node, base)
    ]
    lines = (json.dumps({**event, "seq": seq}) + "\n" for seq, event in enumerate(kept))
    (folder / "events.jsonl").write_text("".join(lines))
