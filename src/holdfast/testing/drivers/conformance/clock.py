"""Which clock decides, and comparisons to the microsecond (L1, L2)."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Cancel, Configure, Inspect, Purge, Read, Requeue, Scan, Trim, Write
from holdfast.drivers.store import Store
from holdfast.errors import CallerClockRefused, InvalidInput
from holdfast.model import bounds
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness


def _with_now(store: Store, now: int) -> dict[str, Callable[[], object]]:
    """Return every call that takes ``now``, each with valid arguments."""
    return {
        "enqueue": lambda: store.enqueue([], now=now),
        "reserve": lambda: store.reserve([QUEUE], limit=1, lease_for=LEASE, now=now),
        "extend": lambda: store.extend([], lease_for=LEASE, now=now),
        "settle": lambda: store.settle([], now=now),
        "reap": lambda: store.reap(now=now),
        "counts": lambda: store.counts(now=now),
        "requeue": lambda: store.do(Requeue(job_ids=["unknown"], now=now)),
        "cancel": lambda: store.do(Cancel(job_ids=["unknown"], now=now)),
        "purge": lambda: store.do(Purge(job_ids=["unknown"], now=now)),
        "trim": lambda: store.do(Trim(now=now)),
    }


def _registry_with_now(store: Store, now: int) -> dict[str, Callable[[], object]]:
    return {
        "read": lambda: store.do(Read(kind="kind", keys=["key"], now=now)),
        "write": lambda: store.do(Write(changes=[Change(kind="kind", key="key", value=b"1")], now=now)),
        "scan": lambda: store.do(Scan(kind="kind", now=now)),
    }


@case("L1", needs={Feature.JOBS})
def every_call_refuses_now_unless_the_store_was_opened_with_a_callers_clock(h: Harness) -> None:
    store = h.open_with_store_clock()
    for verb, call in _with_now(store, 1).items():
        with assert_raises(CallerClockRefused, verb):
            call()


@case("L1", needs={Feature.REGISTRY})
def the_registry_refuses_now_unless_the_store_was_opened_with_a_callers_clock(h: Harness) -> None:
    store = h.open_with_store_clock()
    for verb, call in _registry_with_now(store, 1).items():
        with assert_raises(CallerClockRefused, verb):
            call()
    assert_equal(store.do(Read(kind="kind", keys=["key"])), [None], "the row after a refused write")


@case("L1")
def an_enqueue_with_a_refused_now_stores_nothing(h: Harness) -> None:
    store, job = h.open_with_store_clock(), h.job()
    with assert_raises(CallerClockRefused):
        store.enqueue([job], now=1)
    assert_equal(store.get(job.id), None, "the job of a refused enqueue")


@case("L1")
def a_reserve_with_a_refused_now_reaps_nothing(h: Harness) -> None:
    """A worker whose clock is far ahead must not end the leases of other workers."""
    store, job = h.open_with_store_clock(), h.job()
    store.enqueue([job])
    [reservation] = store.reserve([QUEUE], limit=1, lease_for=LEASE)
    with assert_raises(CallerClockRefused):
        store.reserve([QUEUE], limit=1, lease_for=LEASE, now=bounds.MAX_INSTANT)
    assert_equal(store.reserve([QUEUE], limit=1, lease_for=LEASE), [], "jobs reserved by a second reserve")
    assert_equal(store.do(Inspect(job_ids=[job.id]))[job.id].fence, reservation.lease.fence, "the fence of the lease")


@case("L1")
def without_now_the_stores_own_clock_decides(h: Harness) -> None:
    store = h.open_with_store_clock()
    store.enqueue([h.job(max_crashes=None)])
    [first] = store.reserve([QUEUE], limit=1, lease_for=1)
    # A lease of one microsecond has expired before the next call arrives.
    [second] = store.reserve([QUEUE], limit=1, lease_for=LEASE)
    assert second.lease.fence > first.lease.fence, "wanted the expired lease to be replaced"
    [longer] = store.extend([second.lease], lease_for=2 * LEASE)
    assert not isinstance(longer, Exception), f"wanted the lease extended, got {longer!r}"
    assert longer.expires_at >= second.lease.expires_at + LEASE, "wanted expires_at counted from a later instant"


@case("L1", needs={Feature.CALLER_CLOCK})
def now_must_be_a_valid_instant(h: Harness) -> None:
    for invalid in (-1, bounds.MAX_INSTANT + 1, True, 1.5, "1"):
        with assert_raises(InvalidInput, f"now={invalid!r}"):
            h.store.enqueue([], now=invalid)  # type: ignore[arg-type]


@case("L1", needs={Feature.CALLER_CLOCK})
def the_callers_now_is_used_to_the_microsecond(h: Harness) -> None:
    h.advance(7)
    reservation = h.reserve_new_job(lease_for=11)
    assert_equal(reservation.lease.expires_at, h.now + 11, "expires_at")
    assert_equal(h.inspect(reservation.job.id).reserved_at, h.now, "reserved_at")


@case("L2")
def a_lease_is_valid_one_microsecond_before_expires_at(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance_to(reservation.lease.expires_at - 1)
    assert_equal(h.reap(), 0, "reaped before the end")
    assert_equal(h.reserve(), [], "reserved before the end")
    h.must_extend(reservation.lease)


@case("L2")
def a_lease_is_expired_at_expires_at(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance_to(reservation.lease.expires_at)
    assert_equal(h.reap(), 1, "reaped at the end")


@case("L2")
def a_lease_is_expired_one_microsecond_after_expires_at(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance_to(reservation.lease.expires_at + 1)
    assert_equal(h.reap(), 1, "reaped after the end")


@case("L2", needs={Feature.SCHEDULE})
def a_job_is_due_exactly_at_its_run_at(h: Harness) -> None:
    for offset, wanted in ((-1, 0), (0, 1), (1, 1)):
        run_at = h.now + 1000
        job = h.enqueue_job(run_at=run_at, queue=f"at{offset}")
        h.advance_to(run_at + offset)
        assert_equal(len(h.reserve(queues=[job.queue])), wanted, f"jobs reserved at run_at {offset:+} µs")


@case("L2", needs={Feature.LIMITS})
def a_pause_ends_exactly_at_paused_until(h: Harness) -> None:
    until = h.now + 1000
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(paused_until=until)))
    h.enqueue_job()
    h.advance_to(until - 1)
    assert_equal(h.reserve(), [], "reserved a microsecond before the pause ends")
    h.advance_to(until)
    assert_equal(len(h.reserve()), 1, "jobs reserved when the pause ends")
