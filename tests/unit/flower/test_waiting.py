"""Pauses, limits and signs of life."""

import pytest
from pretend_grid import PretendClock

from unstale.flower.waiting import TELL_EVERY, Wait


def test_pauses_grow_to_the_longest():
    clock = PretendClock()
    wait = Wait(clock, 0.2, None)
    for _ in range(50):
        wait.pause()
    assert clock.pauses[0] == pytest.approx(0.02)
    assert clock.pauses == sorted(clock.pauses)
    assert clock.pauses[-1] == 0.2


def test_a_pause_is_short_beside_the_wait():
    clock = PretendClock()
    wait = Wait(clock, 0.2, None)
    while wait.seconds < 1.5:
        before = wait.seconds
        wait.pause()
        assert wait.seconds - before <= max(0.021, 0.101 * before)


def test_it_ends_at_its_limit_and_not_later():
    clock = PretendClock()
    wait = Wait(clock, 7.0, 10.0)
    while not wait.is_over:
        wait.pause()
    assert wait.seconds == pytest.approx(10.0)


def test_without_a_limit_it_never_ends():
    clock = PretendClock()
    wait = Wait(clock, 1.0, None)
    clock.now += 1e9
    assert not wait.is_over


def test_it_tells_now_and_then():
    clock = PretendClock()
    wait = Wait(clock, 1.0, None)
    told = []
    for _ in range(100):
        clock.now += 1.0
        if wait.should_tell():
            told.append(wait.seconds)
    assert told == [TELL_EVERY, 2 * TELL_EVERY, 3 * TELL_EVERY]
