"""Which successes are lines of their own, second by second."""

import logging

import pytest

from holdfast.driver import JobRecord
from holdfast.log.events import WORKER_LOGGER
from holdfast.model.lease import make_reservation
from holdfast.model.settlement import Ack
from holdfast.observability.logs import LogObserver
from holdfast.observability.success_log import SHOWN_PER_SECOND, SuccessLog, Summary
from holdfast.worker.processes.running import Run
from holdfast.worker.status import Settled


class Clock:
    """A clock that a test moves."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def successes(clock):
    return SuccessLog(now=clock)


def add(successes, count, type_="t", seconds=1.0):
    return sum(successes.add(type_, seconds) for _ in range(count))


def test_few_successes_are_all_shown(successes, clock):
    for _ in range(5):
        assert add(successes, SHOWN_PER_SECOND) == SHOWN_PER_SECOND
        clock.seconds += 1
        assert successes.take() == []


def test_under_load_a_summary_is_about_all_jobs_of_its_second(successes, clock):
    assert add(successes, SHOWN_PER_SECOND + 10) == SHOWN_PER_SECOND
    assert successes.take() == []  # the second has not passed
    clock.seconds += 1
    assert successes.take() == [Summary("t", 10, 1.0, 1.0)]
    assert add(successes, 900, seconds=2.0) + add(successes, 100, "other", seconds=9.0) == 0
    add(successes, 101, seconds=5.0)
    clock.seconds += 1
    assert successes.take() == [Summary("other", 100, 9.0, 9.0), Summary("t", 1001, 2.0, 5.0)]
    assert add(successes, 10) == 0
    clock.seconds += 1
    assert successes.take() == [Summary("t", 10, 1.0, 1.0)]
    assert add(successes, 10) == 10  # the second before had few
    assert successes.take(at_once=True) == []


def test_a_busy_second_long_ago_hides_nothing(successes, clock):
    add(successes, 1000)
    clock.seconds += 60
    assert [one.jobs for one in successes.take()] == [950]
    assert add(successes, 1) == 1


@pytest.mark.parametrize(("level", "done", "summed"), [(logging.INFO, 50, [70]), (logging.DEBUG, 120, [])])
def test_the_observer_sums_up_unless_the_level_is_debug(caplog, level, done, summed):
    observer = LogObserver()
    observer.started("w", ["q"])
    job = JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=0, attempts=1)
    run = Run(1, make_reservation(job, "token", 7, 10))
    run.seconds = 0.25
    settled = Settled(run, Ack(run.reservation.lease), None, "acked")
    refused_result = Settled(run, Ack(run.reservation.lease, detail="the result is too large"), None, "acked")
    with caplog.at_level(level, WORKER_LOGGER):
        observer.settled([settled] * 120)
        observer.settled([refused_result])
        observer.stopped("w", {"acked": 121})
    events = [record.event for record in caplog.records]
    assert events.count("job.done") == done + (level == logging.DEBUG)
    assert events.count("result.not_stored") == 1
    summaries = [record for record in caplog.records if record.event == "jobs.done"]
    assert [(one.type, one.count, one.median, one.longest, one.worker) for one in summaries] == [
        ("t", count + 1, 0.25, 0.25, "w") for count in summed
    ]
