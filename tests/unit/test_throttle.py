"""The throttle holds its rate over all batches, whatever their size."""

import pytest

from holdfast.throttle import Throttle


class Clock:
    def __init__(self):
        self.at = 100.0

    def now(self):
        return self.at

    def sleep(self, seconds):
        assert seconds > 0
        self.at += seconds


@pytest.mark.parametrize(("rate", "most", "size"), [(None, 500, 500), (50.0, 500, 5), (1e6, 500, 500), (0.1, 500, 1)])
def test_a_batch_lasts_a_tenth_of_a_second_and_is_never_empty(rate, most, size):
    assert Throttle(rate).batch_size(most) == size


def test_the_rate_holds_over_many_batches():
    clock = Clock()
    throttle = Throttle(50.0, now=clock.now, sleep=clock.sleep)
    for _ in range(21):
        throttle.wait(5)
    assert clock.at == pytest.approx(102.0)


def test_lost_time_is_not_made_up_for():
    clock = Clock()
    throttle = Throttle(10.0, now=clock.now, sleep=clock.sleep)
    throttle.wait(1)
    clock.at += 60
    throttle.wait(1)
    assert clock.at == 160.0
    throttle.wait(1)
    assert clock.at == pytest.approx(160.1)


def test_without_a_rate_nothing_waits():
    clock = Clock()
    throttle = Throttle(None, now=clock.now, sleep=clock.sleep)
    throttle.wait(1000)
    assert clock.at == 100.0
