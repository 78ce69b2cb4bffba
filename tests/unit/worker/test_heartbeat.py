"""What a heartbeat does with the answers of the store."""

import threading

import pytest

from holdfast.clock import SECOND, boot_time
from holdfast.drivers.requests import Extend, Inspect
from holdfast.model.job import JobRecord
from holdfast.model.lease import Note
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.processes.running import LEASE_MARGIN, Run
from tests.in_memory import InMemory

LEASE = 60_000_000


class Store(InMemory):
    """Calls a function after every extend, before its answer."""

    def __init__(self):
        super().__init__()
        self.after_extend = lambda: None

    def do(self, request):
        answer = super().do(request)
        if isinstance(request, Extend):
            self.after_extend()
        return answer


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
    assert store.do(Inspect(job_ids=[run.reservation.job.id]))[run.reservation.job.id].note == Note(progress=b"1")
    store.after_extend = lambda: None
    heartbeat.beat()
    assert store.do(Inspect(job_ids=[run.reservation.job.id]))[run.reservation.job.id].note == Note(progress=b"2")
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


def test_a_lease_counts_from_before_the_call_that_extended_it(store):
    heartbeat = Heartbeat(store, lease_for=LEASE, on_lost=lambda *_: None, on_cancel=lambda _: None)
    [run] = reserve_runs(store, 1)
    heartbeat.add([run])
    extended_at = []

    def answer_late():
        extended_at.append(boot_time())
        while boot_time() == extended_at[0]:
            pass

    store.after_extend = answer_late
    heartbeat.beat()
    assert run.lease_deadline <= extended_at[0] + (1 - LEASE_MARGIN) * LEASE / SECOND


def test_the_published_deadline_is_the_earliest_of_all_leases(store):
    published = []
    heartbeat = Heartbeat(
        store, lease_for=LEASE, on_lost=lambda *_: None, on_cancel=lambda _: None, publish_deadline=published.append
    )
    now, runs = boot_time(), reserve_runs(store, 3)
    for run, age in zip(runs, (2.0, 3.0, 1.0), strict=True):
        run.set_lease(now - age, LEASE / SECOND)
        heartbeat.add([run])
    heartbeat.add([])
    assert published == [runs[0].lease_deadline, runs[1].lease_deadline, runs[1].lease_deadline]
    before = published[-1]
    heartbeat.beat()
    assert published[-1] == min(run.lease_deadline for run in runs) > before
    heartbeat.remove(runs)
    later = Run(4, runs[0].reservation)
    later.set_lease(now + 5.0, LEASE / SECOND)
    heartbeat.add([later])
    assert published[-1] == later.lease_deadline


def test_an_answer_that_was_overtaken_moves_no_deadline_back(store):
    [run] = reserve_runs(store, 1)
    run.set_lease(100.0, 10.0)
    later = run.lease_deadline, run.lease_kill_at
    run.set_lease(99.0, 10.0)
    assert (run.lease_deadline, run.lease_kill_at) == later


def test_a_beat_does_not_wait_for_the_one_before_it_and_a_settlement_waits_for_both(store):
    heartbeat = Heartbeat(store, lease_for=LEASE, on_lost=lambda *_: None, on_cancel=lambda _: None)
    [run] = reserve_runs(store, 1)
    heartbeat.add([run])
    run.add_note(b"1", None)
    both_are_under_way, removed = threading.Barrier(3), []
    may_answer = threading.Event()

    def answer_late():
        both_are_under_way.wait(30)
        may_answer.wait(30)

    store.after_extend = answer_late
    beats = [threading.Thread(target=heartbeat.beat) for _ in range(2)]
    for beat in beats:
        beat.start()
    both_are_under_way.wait(30)
    settlement = threading.Thread(target=lambda: removed.extend(heartbeat.remove([run])))
    settlement.start()
    settlement.join(0.1)
    assert not removed
    may_answer.set()
    settlement.join(30)
    assert [lease.job_id for lease in removed] == [run.reservation.job.id]
    for beat in beats:
        beat.join(30)
    assert run.note is None
    assert store.do(Inspect(job_ids=[run.reservation.job.id]))[run.reservation.job.id].note == Note(progress=b"1")
