"""What a heartbeat does with the answers of the store."""

import pytest

from holdfast.drivers.memory import MemoryDriver
from holdfast.model.job import JobRecord
from holdfast.model.lease import Note
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.processes.running import Run

LEASE = 60_000_000


class Store(MemoryDriver):
    """Calls a function after every extend, before its answer."""

    def __init__(self):
        super().__init__()
        self.after_extend = lambda: None

    def extend(self, leases, **options):
        answers = super().extend(leases, **options)
        self.after_extend()
        return answers


@pytest.fixture
def store():
    with Store() as opened:
        yield opened


def reserve_runs(store, count, *, lease_for=LEASE):
    store.enqueue([JobRecord(id=f"{n}", type="t", queue="q", payload=b"{}", created_at=1) for n in range(count)])
    reserved = store.reserve(["q"], limit=count, lease_for=lease_for)
    return [Run(number, reservation) for number, reservation in enumerate(reserved)]


def test_a_note_that_comes_during_a_heartbeat_is_sent_by_the_next_one(store):
    heartbeat = Heartbeat(store, lease_for=LEASE, on_lost=lambda *_: None, on_cancel=lambda _: None)
    [run] = reserve_runs(store, 1)
    heartbeat.add([run])
    run.add_note(b"1", None)
    store.after_extend = lambda: run.add_note(b"2", None)
    heartbeat.beat()
    assert store.inspect(run.reservation.job.id).note == Note(progress=b"1")
    store.after_extend = lambda: None
    heartbeat.beat()
    assert store.inspect(run.reservation.job.id).note == Note(progress=b"2")
    assert run.note is None


def test_a_run_that_was_removed_meanwhile_is_not_reported_as_lost(store):
    lost = []

    def on_lost(run, _error):
        lost.append(run)
        heartbeat.remove(runs)

    heartbeat = Heartbeat(store, lease_for=LEASE, on_lost=on_lost, on_cancel=lambda _: None)
    runs = reserve_runs(store, 2, lease_for=1)  # the leases have expired
    heartbeat.add(runs)
    heartbeat.beat()
    assert lost == runs[:1]


class _FirstPause:
    """Stands for the event that the heartbeat waits for: keeps how long it wants to wait, and stops it."""

    def __init__(self, stop):
        self.seconds = None
        self._stop = stop

    def wait(self, seconds):
        self.seconds = seconds
        self._stop.set()

    def clear(self):
        pass


def test_leases_are_extended_every_third_of_their_time(store):
    heartbeat = Heartbeat(store, lease_for=15_000_000, on_lost=lambda *_: None, on_cancel=lambda _: None)
    heartbeat._is_due = pause = _FirstPause(heartbeat._stop)
    heartbeat.start()
    heartbeat._thread.join(10)
    assert pause.seconds == 5.0
