"""A rate is kept over all of it, whatever the pieces are."""

import pytest

from holdfast.throttle import Pace


class Clock:
    def __init__(self):
        self.at = 100.0

    def now(self):
        return self.at

    def sleep(self, seconds):
        assert seconds > 0
        self.at += seconds


@pytest.mark.parametrize(("rate", "most", "size"), [(None, 500, 500), (50.0, 500, 5), (1e6, 500, 500), (0.1, 500, 1)])
def test_pieces_are_a_tenth_of_a_second_and_never_none(rate, most, size):
    assert Pace(rate).size(most) == size


def test_a_rate_is_kept_over_the_whole():
    clock = Clock()
    pace = Pace(50.0, now=clock.now, sleep=clock.sleep)
    for _ in range(21):
        pace.wait(5)
    assert clock.at == pytest.approx(102.0)


def test_lost_time_is_not_made_up_for():
    clock = Clock()
    pace = Pace(10.0, now=clock.now, sleep=clock.sleep)
    pace.wait(1)
    clock.at += 60
    pace.wait(1)
    assert clock.at == 160.0
    pace.wait(1)
    assert clock.at == pytest.approx(160.1)


def test_without_a_rate_nobody_waits():
    clock = Clock()
    pace = Pace(None, now=clock.now, sleep=clock.sleep)
    pace.wait(1000)
    assert clock.at == 100.0
