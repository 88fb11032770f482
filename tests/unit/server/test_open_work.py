"""Who works on what and who has answered, against plain sets and in bounded memory."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.server import open_work as module
from unstale.server.open_work import Answered, Tickets

VERSIONS = st.lists(st.integers(0, 40), max_size=60)


@given(VERSIONS)
def test_answered_is_a_set_in_fewer_words(versions):
    answered, plain = Answered(), set()
    for version in versions:
        answered.add(version)
        plain.add(version)
        assert all((v in answered) == (v in plain) for v in range(44))
        assert all(answered.remembers(v) == (v in plain) for v in range(44))
    covered = [v for a, b in answered.stretches for v in range(a, b + 1)]
    assert covered == sorted(plain)
    # As few stretches as can be: between two of them there is a gap.
    pairs = zip(answered.stretches, answered.stretches[1:], strict=False)
    assert all(a[1] + 1 < b[0] for a, b in pairs)


@given(VERSIONS, st.integers(1, 4))
def test_with_bounded_memory_nothing_answered_is_ever_forgotten(versions, most):
    before, module.MAX_STRETCHES = module.MAX_STRETCHES, most
    try:
        answered, plain = Answered(), set()
        for version in versions:
            answered.add(version)
            plain.add(version)
            assert len(answered.stretches) <= most
            assert all(v in answered for v in plain)
            # Above the floor it is exact; only below it is more counted as answered.
            assert all((v in answered) == (v in plain) for v in range(answered.floor + 1, 44))
    finally:
        module.MAX_STRETCHES = before


def test_answers_without_neighbours_are_bounded_by_a_floor():
    answered = Answered()
    for version in range(0, 10_000, 2):
        answered.add(version)
    assert len(answered.stretches) == module.MAX_STRETCHES
    assert answered.floor == 10_000 - 2 * module.MAX_STRETCHES - 2
    assert 1 in answered  # below the floor: counts as answered though it never was
    assert not answered.remembers(1)
    assert answered.floor + 1 not in answered


@pytest.fixture
def below_the_floor():
    """Client `a` has an open ticket on version 1, which lies below the floor of its answers."""
    tickets = Tickets()
    tickets.open("a", 1)
    for version in range(2, 2 * module.MAX_STRETCHES + 10, 2):
        tickets.answer("a", version)
    assert tickets.to_json()["answered"]["a"]["floor"] > 1
    return tickets


def test_an_open_ticket_below_the_floor_can_be_answered_once(below_the_floor):
    tickets = below_the_floor
    assert not tickets.has_answered("a", 1)
    tickets.answer("a", 1)
    assert tickets.has_answered("a", 1)
    tickets.open("a", 1)  # no new ticket: it was answered
    assert not tickets.is_open("a", 1)
    assert tickets.has_answered("a", 1)


def test_without_a_ticket_a_version_below_the_floor_counts_as_answered(below_the_floor):
    assert below_the_floor.has_answered("a", 0)
    below_the_floor.release("a", 1)
    assert below_the_floor.has_answered("a", 1)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["open", "answer", "release", "release all"]),
        st.sampled_from("ab"),
        st.integers(0, 6),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_tickets_against_plain_sets_and_through_json(actions):
    tickets, opened, answered = Tickets(), set(), set()
    for action, client, version in actions:
        if action == "open":
            tickets.open(client, version)
            if (client, version) not in answered:
                opened.add((client, version))
        elif action == "answer":
            tickets.answer(client, version)
            opened.discard((client, version))
            answered.add((client, version))
        elif action == "release":
            tickets.release(client, version)
            opened.discard((client, version))
        else:
            tickets.release(client)
            opened = {(c, v) for c, v in opened if c != client}
        tickets = Tickets.from_json(json.loads(json.dumps(tickets.to_json())))
        assert tickets.outstanding() == {v for _, v in opened}
        for c in "ab":
            for v in range(7):
                assert tickets.is_open(c, v) == ((c, v) in opened)
                assert tickets.has_answered(c, v) == ((c, v) in answered)
    assert tickets.ever_used == any(action == "open" for action, _, _ in actions)


def test_a_client_without_tickets_takes_no_room():
    tickets = Tickets()
    for number in range(100):
        tickets.open("a", number)
        tickets.release("a", number)
    tickets.release("never seen", 3)
    assert tickets.to_json() == {"ever_used": True, "open": {}, "answered": {}}
