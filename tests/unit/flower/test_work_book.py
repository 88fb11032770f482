"""The book of open work: every piece of work in one stage, and the server told in step."""

import pytest
import torch
from pretend_clients import claims, late_grid, small_model
from pretend_grid import message, reply_to
from strategy_runs import of_kind, start, strategy

import unstale as us
from unstale.errors import ConfigError
from unstale.flower.journal import Entry
from unstale.flower.work import WorkTicket
from unstale.flower.work_book import Inherited, WorkBook


def entry_of(node, version, due=1, idle_from=2):
    delta = {n: torch.ones_like(p) for n, p in small_model().named_parameters()}
    return Entry(us.Update(str(node), version, delta, 10), 1, due, idle_from)


@pytest.fixture
def server():
    return us.Server(small_model())


@pytest.fixture
def book(server):
    book = WorkBook()
    book.begin(server)
    return book


def send(book, node, *, version=0, round=1, delay=0):
    asked = message(node)
    asked.metadata.__dict__["_message_id"] = f"{node} in {round}"
    ticket = WorkTicket(asked.metadata.message_id, node, version, round, 100.0)
    book.send(ticket, delay)
    return ticket, asked


def work_with_reply(book, node, **options):
    book.hand_out(node)
    ticket, asked = send(book, node, **options)
    book.pull(reply_to(asked), 103.0)
    return book.undecided(ticket)


def test_a_piece_of_work_goes_through_its_stages(book, server):
    assert book.hand_out(7) == 0
    assert (book.kept_versions(), server.outstanding) == ({"7": 0}, [0])
    assert book.is_empty()
    ticket, asked = send(book, 7)
    assert book.out() == {"7 in 1": 7}
    assert book.undecided(ticket) is None, "there is no reply yet"
    work = book.pull(reply_to(asked), 103.0)
    assert (book.out(), book.working(), work.stage) == ({}, {}, "pulled")
    assert book.undecided(ticket) is work
    book.accept(work, entry_of(7, 0))
    assert book.undecided(ticket) is None
    assert book.accepted(0) == []
    assert book.accepted(1) == [work]
    assert book.give(work).accepted
    assert (book.kept_versions(), server.outstanding) == ({}, [])
    assert [e.key for e in book.given()] == [("7", 0)]
    (arrival,) = book.come_out(1)
    assert (arrival.ticket, arrival.rounds_late, arrival.seconds) == (ticket, 0, 3.0)
    assert book.is_empty()
    book.next_version()
    assert book.given() == []


def test_refused_work_is_closed_at_once_and_its_reply_still_comes_out(book, server):
    work = work_with_reply(book, 7)
    book.close(work)
    assert server.outstanding == []
    assert book.undecided(work.ticket) is None
    assert [a.ticket.node_id for a in book.come_out(1)] == [7]
    assert book.come_out(1) == []


def test_what_came_out_undecided_can_still_be_decided(book):
    work = work_with_reply(book, 7)
    assert len(book.come_out(1)) == 1
    assert book.undecided(work.ticket) is work
    book.accept(work, entry_of(7, 0))
    assert book.undecided(work.ticket) is None
    assert book.accepted(1) == [work]


def test_what_could_not_be_sent_is_closed(book, server):
    book.hand_out(7)
    book.hand_out(8)
    send(book, 8)
    assert book.close_unsent() == [7]
    assert book.kept_versions() == {"8": 0}
    assert server.outstanding == [0]


def test_who_was_asked_for_the_current_version_is_known_before_and_after_the_answer(book, server):
    send(book, 8)
    book.accept(work_with_reply(book, 7), entry_of(7, 0))
    assert book.asked() == {7, 8}
    server.step()
    assert book.asked() == set()


def test_updates_are_given_in_the_order_in_which_they_were_accepted(book):
    works = {node: work_with_reply(book, node) for node in (3, 4, 5)}
    for node in (5, 3, 4):
        book.accept(works[node], entry_of(node, 0, due=2 if node == 5 else 1))
    for round in (1, 2):
        for work in book.accepted(round):
            book.give(work)
    assert [e.key[0] for e in book.given()] == ["3", "4", "5"]


def test_a_repetition_is_refused_by_the_server_though_it_was_checked(book, server):
    work = work_with_reply(book, 7)
    book.accept(work, entry_of(7, 0))
    assert server.submit(entry_of(7, 0).update).accepted
    assert book.give(work).code == "repeated"
    assert book.given() == []
    assert work.stage == "closed"


def test_work_of_a_dead_process_is_taken_over_or_released(server):
    for node in ("7", "8"):
        server.check_out(node)
    server.step()
    book = WorkBook()
    book.begin(server)
    book.resume([entry_of(7, 0, idle_from=1), entry_of(9, 1)], {"7": 0, "8": 0})
    assert server.outstanding == [0, 1]
    assert book.kept_versions() == {"7": 0, "9": 1}
    assert book.inherited(1) == Inherited(answered=1, arrivals=2)
    assert book.occupied(1) == book.asked() == {9}, "it has answered the current version"
    assert book.occupied(2) == set()
    server.release("7")
    assert server.outstanding == [1], "nobody waits for node 8"


def test_an_inherited_update_is_checked_against_the_limits_of_today():
    server = us.Server(small_model(), limits=us.Limits(max_norm=0.1))
    book = WorkBook()
    book.begin(server)
    book.resume([entry_of(7, 0)], {})
    (work,) = book.accepted(1)
    assert book.give(work).code == "norm"


def test_a_grid_that_outlives_a_run_keeps_its_messages_and_forgets_decisions(book):
    refused = work_with_reply(book, 7)
    book.close(refused)
    book.hand_out(8)
    send(book, 8)
    book.hand_out(9)
    book.begin(us.Server(small_model()))
    assert book.kept_versions() == {}
    assert book.out() == {"8 in 1": 8}
    assert book.undecided(refused.ticket) is refused


def test_a_reply_that_the_journal_has_is_not_taken_twice(book):
    work = work_with_reply(book, 7, delay=2)
    book.begin(us.Server(small_model()))
    book.resume([entry_of(7, 0)], {})
    assert book.undecided(work.ticket) is None


def test_without_a_server_work_ends_when_it_comes_out():
    book = WorkBook()
    _, asked = send(book, 7)
    book.pull(reply_to(asked), 103.0)
    assert len(book.come_out(1)) == 1
    assert book.is_empty()
    with pytest.raises(ConfigError, match="begin"):
        book.hand_out(7)


def test_the_values_of_a_reply_are_checked_once(tmp_path, monkeypatch, in_a_run):
    from unstale.server import checks

    seen, real = [], checks.check_update

    def counted(update, *rest):
        seen.append((update.client_id, update.base_version))
        return real(update, *rest)

    monkeypatch.setattr("unstale.server.server.check_update", counted)
    start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0, 5: 1.0}, {5: claims(-1)}), rounds=2)
    accepted = [(e["node"], e["base_version"]) for e in of_kind(tmp_path / "run", "accepted")]
    assert sorted(seen) == sorted(accepted)
    assert len(accepted) == 4
