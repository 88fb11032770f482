import dataclasses
import logging

import pytest
from logged_run import SLOW, told_of
from logged_run import report as report_of

from unstale.flower.round_line import round_line
from unstale.flower.server_log import MAX_TOLD, join_flowers_log, log_lines, log_round
from unstale.updates import Note


def line(t=21, **changes):
    told = {**told_of(t), **changes}
    return round_line(told.pop("report"), **told)


def texts(found):
    return [text for _, text in log_lines(found, rounds=40)]


def warnings(found):
    return [text for level, text in log_lines(found, rounds=40) if level >= logging.WARNING]


def test_a_round_in_which_a_late_update_is_converted():
    assert texts(line(6, evaluation={"accuracy": 0.5}, seconds=6.46)) == [
        "Round 6 of 40: 4 nodes answered in 6.5 s, 1 of them late; 1 still works; accuracy 0.500",
        f"  answered: {SLOW}, 2918273645546372819, 77, 887766554433221100",
        f"  late: {SLOW} by 5 rounds",
        f"  still working: {SLOW} since this round",
        f"  converted: {SLOW} from version 0 (loss 0.02793, 150 iterations, cold start)",
    ]


def test_who_was_stood_in_for_is_told():
    notes = [Note("stood_in", SLOW, 6, {"age": 6, "weight": 0.875})]
    told = texts(line(7, report=report_of(7, notes=notes), evaluation={}, seconds=6.46))
    assert told[0] == ("Round 7 of 40: 3 nodes answered in 6.5 s; 1 still works; 1 stood in for")
    assert f"  stood in for: {SLOW} (age 6, weight 0.88)" in told
    assert not any("stood in" in text for text in texts(line(7)))


def test_what_needs_attention_is_a_warning():
    found = line(21, refused=[("77", "not_finite", "Found NaN.")], report=report_of(21))
    assert warnings(found) == ["  refused: 77, not_finite: Found NaN."]
    assert warnings(line(21)) == [f"  fell back: {SLOW}: not trusted: 3.1 times as large"]
    idle = line(3, report=report_of(3, changed=False))
    assert warnings(idle) == ["  no update could be used: the weights stay as they are"]
    assert warnings(line(3)) == []


def test_the_latest_come_first_and_the_rest_is_counted():
    found = line(3, working={f"n{i:02d}": i for i in range(20)})
    told = next(text for text in texts(found) if "still working" in text)
    assert told.startswith("  still working: n19 for 19 rounds, n18 for 18 rounds, ")
    assert told.endswith(f"n15 for 15 rounds, {20 - MAX_TOLD} more")


def test_many_refusals_do_not_flood_the_log():
    found = line(3, refused=[(f"n{i}", "shape", "no") for i in range(5000)])
    assert len(warnings(found)) == MAX_TOLD + 1
    assert warnings(found)[-1] == f"  refused: {5000 - MAX_TOLD} more"


def test_a_stranger_cannot_write_lines_of_their_own():
    hostile = "x\nERROR all is lost\x1b[31m\u2028"
    found = line(
        3, answered=[hostile], late={hostile: 1}, working={hostile: 2},
        refused=[(hostile, "shape", hostile)],
    )  # fmt: skip
    assert all(text.isprintable() for text in texts(found))


def test_what_is_fitted_in_the_background_is_told():
    waiting, none = (dataclasses.replace(line(3), awaiting_fit=n) for n in (2, 0))
    assert "; 1 still works; 2 updates awaiting fit; acc" in texts(waiting)[0]
    assert texts(none) == texts(line(3))


def test_without_an_end_there_is_no_of():
    assert log_lines(line(3), rounds=0)[0][1].startswith("Round 3: 3 nodes")


def test_it_is_logged(caplog):
    with caplog.at_level(logging.INFO, logger="unstale"):
        log_round(line(13), rounds=40)
    assert [r.levelname for r in caplog.records] == ["INFO", "INFO", "INFO", "WARNING"]
    assert caplog.records[0].getMessage().startswith("Round 13 of 40")


def loggers(test):
    """Two loggers of the test's own, and their names.

    No fixture: pytest listens to every logger that is there when a test begins.
    """
    names = (f"{test}-own", f"{test}-flowers")
    own, flowers = map(logging.getLogger, names)
    own.propagate = flowers.propagate = False
    return own, flowers, names


def test_progress_appears_where_flowers_log_does():
    own, flowers, names = loggers("joined")
    flowers.addHandler(handler := logging.NullHandler())
    join_flowers_log(*names)
    join_flowers_log(*names)
    assert own.handlers == [handler]
    assert own.level == logging.INFO


def test_an_app_that_set_up_logging_is_left_alone():
    own, flowers, names = loggers("theirs")
    own.addHandler(theirs := logging.NullHandler())
    flowers.addHandler(logging.NullHandler())
    join_flowers_log(*names)
    assert own.handlers == [theirs]
    assert own.level == logging.NOTSET


def test_without_flower_nothing_is_set_up():
    own, _, names = loggers("absent")
    join_flowers_log(*names)
    assert own.handlers == []
    assert own.level == logging.NOTSET


def test_flowers_logger_is_the_one_that_prints():
    """The name and its handler are Flower's; should they change, progress would be lost."""
    pytest.importorskip("flwr.app")
    assert logging.getLogger("flwr").handlers
