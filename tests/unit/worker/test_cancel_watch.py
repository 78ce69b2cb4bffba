"""The cancel watch: which jobs it watches, and what it does with the answers of the store."""

import threading

import pytest

from holdfast.clock import monotonic
from holdfast.drivers.requests import Cancel, WaitForCancel
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.worker.cancel_watch import CancelWatch, CancelWatchTiming
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.processes.running import Run
from tests.in_memory import InMemory

MAX_WAIT_SECONDS = 30.0  # after which a test has failed
LEASE = 3_600_000_000  # no heartbeat is due by itself


class Store(InMemory):
    """Answers every question for cancels with a request; raises an error of its own first, if it has one."""

    def __init__(self):
        super().__init__()
        self.asked = []  # how many jobs each question named
        self.was_asked = threading.Semaphore(0)
        self.failures = 0

    def do(self, request):
        if not isinstance(request, WaitForCancel):
            return super().do(request)
        self.asked.append(len(request.job_ids))
        self.was_asked.release()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a bug")
        return True


@pytest.fixture
def store():
    with Store() as opened:
        yield opened


@pytest.fixture
def cancelled():
    return threading.Event()


@pytest.fixture
def heartbeat(store, cancelled):
    heartbeat = Heartbeat(store, lease_for=LEASE, on_lost=lambda *_: None, on_cancel=lambda _: cancelled.set())
    heartbeat.start()
    yield heartbeat
    heartbeat.stop(MAX_WAIT_SECONDS)


@pytest.fixture
def timing():
    return CancelWatchTiming()


@pytest.fixture
def watch(store, heartbeat, timing):
    watch = CancelWatch(store, heartbeat, timing)
    yield watch
    watch.stop(MAX_WAIT_SECONDS)


def add_running_jobs(store, heartbeat, count, *, seconds):
    """Reserve jobs, request their cancel, and let the heartbeat extend them as if they ran for ``seconds``."""
    jobs = [JobRecord(id=f"job-{n:05}", type="t", queue="q", payload=b"{}", created_at=1) for n in range(count)]
    for start in range(0, count, bounds.MAX_BATCH_ITEMS):
        store.enqueue(jobs[start : start + bounds.MAX_BATCH_ITEMS])
        reserved = store.reserve(["q"], limit=bounds.MAX_BATCH_ITEMS, lease_for=LEASE)
        store.do(Cancel(job_ids=[reservation.job.id for reservation in reserved]))
        runs = [Run(number, reservation) for number, reservation in enumerate(reserved)]
        for run in runs:
            run.began_at = monotonic() - seconds
        heartbeat.add(runs)


@pytest.mark.parametrize("timing", [CancelWatchTiming(pause_seconds=0.01)], ids=["short pause"])
def test_an_error_of_the_store_does_not_end_the_watch(store, heartbeat, watch, cancelled):
    store.failures = 2
    add_running_jobs(store, heartbeat, 1, seconds=60)
    watch.start()
    assert cancelled.wait(MAX_WAIT_SECONDS)


@pytest.mark.parametrize("timing", [CancelWatchTiming(pause_seconds=10 * MAX_WAIT_SECONDS)], ids=["long pause"])
def test_requests_in_quick_succession_cause_one_heartbeat_and_then_a_pause(store, heartbeat, watch):
    add_running_jobs(store, heartbeat, 1, seconds=60)
    watch.start()
    assert store.was_asked.acquire(timeout=MAX_WAIT_SECONDS)
    assert not store.was_asked.acquire(timeout=0.2)


@pytest.mark.parametrize("timing", [CancelWatchTiming(min_running_seconds=10 * MAX_WAIT_SECONDS)], ids=["short jobs"])
def test_short_jobs_are_not_watched(store, heartbeat, watch):
    add_running_jobs(store, heartbeat, 1, seconds=60)
    watch.start()
    assert not store.was_asked.acquire(timeout=0.2)


def test_one_question_names_no_more_jobs_than_a_store_accepts(store, heartbeat, watch):
    add_running_jobs(store, heartbeat, bounds.MAX_BATCH_ITEMS + 1, seconds=60)
    watch.start()
    assert store.was_asked.acquire(timeout=MAX_WAIT_SECONDS)
    assert store.asked[0] == bounds.MAX_BATCH_ITEMS
