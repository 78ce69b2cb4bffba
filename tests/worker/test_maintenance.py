"""Workers maintain the store by its own retention. A failure is logged with its reason, and ends no worker."""

import logging
from datetime import timedelta

import pytest

import holdfast
from holdfast import Client, JobRequest
from holdfast.clock import DAY, ManualClock
from holdfast.driver import ack, fail
from holdfast.drivers.requests import Read, Requeue, Trim, Write
from holdfast.model import ledger_reader, retention
from holdfast.model.registry import Change
from holdfast.model.retention import Retention, read_retention, store_retention
from holdfast.worker import maintenance
from holdfast.worker.maintenance import Maintenance
from holdfast.worker.timing import MaintenanceTiming, WorkerTiming

AT_ONCE = MaintenanceTiming(reap_seconds=0.0, trim_seconds=0.0, step_seconds=0.0)


def test_an_unreadable_ledger_reader_does_not_end_the_worker(app, drain, caplog):
    """``trim`` cannot know up to which row it may remove the ledger, and refuses."""
    app.handler("one")(lambda _payload: None).enqueue(1)
    app.driver.do(Write(changes=[Change(kind=ledger_reader.KIND, key="history", value=b"not JSON")]))
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        assert drain(WorkerTiming(maintenance=AT_ONCE)) == {"acked": 1}
    failures = [record for record in caplog.records if record.event == "maintenance.failed"]
    assert failures
    assert failures[0].task == "trim"
    assert "history" in failures[0].reason


def stored(app) -> Retention | None:
    return read_retention(app.driver.do(Read(kind=retention.KIND, keys=[retention.KEY]))[0])


def differing(caplog) -> list[tuple[dict, dict]]:
    return [(record.settings, record.store) for record in caplog.records if record.event == "retention.differs"]


def test_of_two_workers_with_different_settings_the_first_decides_and_the_other_says_so(app, drain, caplog):
    """Both trim by the retention that the store has; the settings of the second have no effect."""
    handler = app.handler("one")(lambda _payload: None)
    for keep_ledger in (timedelta(days=365), timedelta(days=1), timedelta(days=365)):
        handler.enqueue(1)
        with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
            assert drain(WorkerTiming(maintenance=AT_ONCE), keep_ledger=keep_ledger) == {"acked": 1}
        assert stored(app) == Retention(ledger_for=365 * DAY)
    kept = {"ended_for": 7 * DAY, "ledger_for": 365 * DAY, "dead_for": None}
    assert differing(caplog) == [({**kept, "ledger_for": DAY}, kept)]


def test_two_running_workers_never_trim_by_different_retentions(tmp_path, caplog):
    clock = ManualClock()
    with holdfast.connect(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as store:
        Client(store, clock=clock).enqueue(JobRequest(type="one"))
        [reservation] = store.reserve(["default"], limit=1, lease_for=DAY)
        ack(store, reservation.lease)
        clock.advance(40 * DAY)
        long, short = (
            Maintenance(store, keep_ended=timedelta(days=days), keep_ledger=timedelta(days=days), timing=AT_ONCE)
            for days in (90, 1)
        )
        with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
            for worker in (long, short, long, short):
                worker.run_due()
        assert len(store.ledger().items) == 1
        assert store.get(reservation.job.id) is not None
        assert len(differing(caplog)) == 1
        store.do(Write(changes=[store_retention(Retention(ended_for=DAY, ledger_for=DAY))]))
        long.run_due()
        assert store.ledger().items == []


def test_a_worker_without_settings_stores_no_retention(app, drain):
    app.handler("one")(lambda _payload: None).enqueue(1)
    assert drain(WorkerTiming(maintenance=AT_ONCE)) == {"acked": 1}
    assert stored(app) is None


def test_dead_letters_are_removed_only_if_the_retention_says_so():
    clock = ManualClock()
    with holdfast.connect("memory://", clock=clock) as store:
        client = Client(store, clock=clock)
        old, late, requeued, waiting = (client.enqueue(JobRequest(type="one")).id for _ in range(4))
        for reservation in store.reserve(["default"], limit=3, lease_for=60 * DAY):
            if reservation.job.id == late:
                clock.advance(20 * DAY)
            fail(store, reservation.lease, reason="no")
            if reservation.job.id == old:
                clock.advance(1)
        store.do(Requeue(job_ids=[requeued]))
        clock.advance(10 * DAY)
        worker = Maintenance(store, keep_ended=None, keep_ledger=None, timing=AT_ONCE)
        worker.run_due()
        assert store.get(old) is not None  # nothing is set
        Maintenance(store, keep_ended=None, keep_ledger=None, keep_dead=timedelta(days=30), timing=AT_ONCE).run_due()
        assert store.get(old) is None
        assert all(store.get(one) is not None for one in (late, requeued, waiting))
        assert [row.job_id for row in store.ledger() if row.ending == "purged"] == [old]
        clock.advance(20 * DAY)
        worker.run_due()  # every worker follows what the store has
        assert store.get(late) is None


def test_a_trim_that_left_rows_is_repeated_before_its_interval(monkeypatch):
    monkeypatch.setattr(maintenance, "TRIM_LIMIT_ROWS", 1)
    clock = ManualClock()
    with holdfast.connect("memory://", clock=clock) as store:
        store.do(Write(changes=[Change(kind="kind", key=key, value=b"1", ttl=1) for key in ("a", "b")]))
        clock.advance(DAY)
        worker = Maintenance(store, keep_ended=None, keep_ledger=None, timing=MaintenanceTiming(trim_seconds=3600.0))
        worker._trim_at = 0.0
        for _ in range(2):
            worker.run_due()
        assert store.do(Trim()).registry == 0


@pytest.fixture(params=["memory", "sqlite"])
def shared(request, tmp_path):
    clock = ManualClock()
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with holdfast.connect(url, clock=clock, space="ours") as store:
        yield store, clock


def test_expired_leases_of_all_spaces_are_ended_in_bounded_steps(shared, monkeypatch):
    store, clock = shared
    monkeypatch.setattr(maintenance, "STEP_SPACES", 2)
    for number in range(5):
        tenant = store.space(f"tenant-{number}")
        Client(tenant, clock=clock).enqueue(JobRequest(type="one"))
        tenant.reserve(["default"], limit=1, lease_for=DAY)
    clock.advance(DAY)
    ended: list[tuple[str, int, int]] = []
    worker = Maintenance(
        store,
        keep_ended=None,
        keep_ledger=None,
        on_reaped=lambda space, leases, expired: ended.append((space, leases, len(expired))),
        timing=AT_ONCE,
    )
    worker.run_due()
    assert ended == [("tenant-0", 1, 1), ("tenant-1", 1, 1)]
    for _ in range(2):
        worker.run_due()
    assert ended == [(f"tenant-{number}", 1, 1) for number in range(5)]


def test_all_spaces_are_trimmed_and_only_the_own_one_gets_the_settings(shared):
    store, clock = shared
    for name in ("a", "ours", "z"):
        store.space(name).do(
            Write(changes=[Change(kind="kind", key=str(number), value=b"1", ttl=1) for number in range(3)])
        )
    clock.advance(DAY)
    worker = Maintenance(store, keep_ended=timedelta(days=3), keep_ledger=None, timing=AT_ONCE)
    worker.run_due()
    assert [store.space(name).do(Trim()).registry for name in ("a", "ours", "z")] == [0, 0, 0]
    stored = [
        store.space(name).do(Read(kind=retention.KIND, keys=[retention.KEY]))[0] is not None
        for name in ("a", "ours", "z")
    ]
    assert stored == [False, True, False]


def test_an_owner_of_all_spaces_stores_its_settings_in_each(shared):
    store, _ = shared
    for name in ("a", "b"):
        store.space(name).do(Write(changes=[Change(kind="kind", key="key", value=b"1")]))
    Maintenance(store, keep_ended=timedelta(days=3), keep_ledger=None, owns_all_spaces=True, timing=AT_ONCE).run_due()
    kept = [
        read_retention(store.space(name).do(Read(kind=retention.KIND, keys=[retention.KEY]))[0]) for name in ("a", "b")
    ]
    assert kept == [Retention(ended_for=3 * DAY)] * 2


def test_a_space_that_cannot_be_trimmed_does_not_stop_the_others(shared, caplog):
    store, clock = shared
    for name in ("a", "b"):
        store.space(name).do(Write(changes=[Change(kind="kind", key="key", value=b"1", ttl=1)]))
    store.space("a").do(Write(changes=[Change(kind=ledger_reader.KIND, key="history", value=b"not JSON")]))
    clock.advance(DAY)
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        Maintenance(store, keep_ended=None, keep_ledger=None, timing=AT_ONCE).run_due()
    [failure] = [record for record in caplog.records if record.event == "maintenance.failed"]
    assert (failure.task, failure.space) == ("trim", "a")
    assert store.space("b").do(Trim()).registry == 0
