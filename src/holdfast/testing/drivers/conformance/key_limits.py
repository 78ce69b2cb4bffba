"""Limits by the limit key of a job: how many jobs of one key are in flight, and in which order the others follow."""

from __future__ import annotations

from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Enqueue, LeaseTerms, Requeue, Settings
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.isolation import enqueue_isolated
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

KEY_LIMITS = {Feature.LIMITS, Feature.LIMIT_KEY}
BACKLOG = 12_000  # jobs: more than one reserve may set aside


def configure_keys(h: Harness, queue: str = QUEUE, **fields: Any) -> None:
    """Set the limits of each key of a queue, for example ``max_inflight=2``."""
    h.store.do(
        Configure(queue=queue, settings=QueueSettings(**{f"key_{name}": value for name, value in fields.items()}))
    )


def fill(h: Harness, key: str | None, count: int, **fields: Any) -> list[str]:
    """Enqueue jobs with one limit key."""
    return [h.enqueue_job(limit_key=key, **fields).id for _ in range(count)]


def reserve_some(h: Harness, count: int, *, limit: int = 9, **options: Any) -> list[Reservation]:
    """Reserve up to ``limit`` jobs; fail the case unless there are ``count``."""
    reservations = h.reserve(limit, **options)
    ids = [reservation.job.id for reservation in reservations]
    assert len(reservations) == count, f"wanted {count} jobs reserved, got {ids}"
    return reservations


# Storing keys and limits ---------------------------------------------------------------------------------------------


@case("L9", needs={Feature.JOBS, Feature.LIMIT_KEY})
def a_limit_key_is_stored_with_its_job(h: Harness) -> None:
    [job] = fill(h, "host äöü/1", 1)
    record = h.store.get(job)
    assert record is not None
    assert_equal(record.limit_key, "host äöü/1", "the key of the ready job")
    reservation = h.reserve_one()
    assert_equal(reservation.job.limit_key, "host äöü/1", "the key of the reserved job")
    h.must_settle(Fail(reservation.lease, "for good"))
    h.store.do(Requeue(job_ids=[job], now=h.now_or_none))
    assert_equal(h.reserve_one().job.limit_key, "host äöü/1", "the key of the requeued job")


@case("L9", needs={Feature.LIMIT_KEY})
def the_jobs_of_a_batch_have_their_own_limit_keys_or_that_of_the_template(h: Harness) -> None:
    for count in (3, 700):  # a few, and so many that a driver may store them in another way
        own = h.job_batch([b"1"] * count, limit_keys=["a", None] + ["b"] * (count - 2), queue=f"own-{count}")
        shared = h.job_batch([b"1"] * count, limit_key="c", queue=f"shared-{count}")
        for batch in (own, shared):
            h.store.enqueue(batch, now=h.now_or_none)
            keys = {one.job.id: one.job.limit_key for one in h.reserve(count, queues=[batch.template.queue])}
            assert_equal(keys, {job.id: job.limit_key for job in batch}, "the keys")


@case("L9", needs={Feature.LIMIT_KEY})
def a_limit_key_without_limits_limits_nothing(h: Harness) -> None:
    jobs = fill(h, "a", 5)
    assert_equal(h.reserve_ids(5), jobs, "reserved")


@case("L3", needs=KEY_LIMITS)
def key_limits_are_stored_with_the_settings_of_the_queue(h: Harness) -> None:
    settings = QueueSettings(max_inflight=9, key_max_inflight=2, key_rate=2.5, key_burst=7)
    h.store.do(Configure(queue=QUEUE, settings=settings))
    assert_equal(h.store.do(Settings(queue=QUEUE)), settings, "the settings")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(key_rate=3), only=("key_rate", "key_burst")))
    wanted = QueueSettings(max_inflight=9, key_max_inflight=2, key_rate=3)
    assert_equal(h.connect_again().do(Settings(queue=QUEUE)), wanted, "after a new rate")


@case("L3", needs=KEY_LIMITS)
def key_limits_of_a_type_are_refused(h: Harness) -> None:
    with assert_raises(InvalidInput):
        h.store.do(Configure(queue=QUEUE, settings=QueueSettings(key_max_inflight=1), type="a"))
    with assert_raises(InvalidInput):
        h.store.do(Configure(queue=QUEUE, settings=QueueSettings(key_rate=1), only=["key_rate"]))


# Jobs in flight ------------------------------------------------------------------------------------------------------


@case("L3", needs=KEY_LIMITS)
def a_full_key_holds_back_no_other_key_and_no_job_without_one(h: Harness) -> None:
    configure_keys(h, max_inflight=2)
    a, b, none = fill(h, "a", 4), fill(h, "b", 1), fill(h, None, 3)
    assert_equal(h.reserve_ids(10), [*a[:2], *b, *none], "reserved")
    assert_equal(h.reserve(10), [], "reserved again")


@case("L3", needs=KEY_LIMITS)
def many_keys_share_one_reserve(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    rounds = [[h.job(limit_key=f"key-{number}") for number in range(40)] for _ in range(3)]
    h.enqueue(*[job for jobs in rounds for job in jobs])
    for jobs in rounds:
        reservations = h.reserve(200)
        assert_equal([one.job.id for one in reservations], [job.id for job in jobs], "one job of each key, in order")
        h.must_settle(*[Ack(one.lease) for one in reservations])


@case("L3", needs=KEY_LIMITS | {Feature.JOBS})
def every_ending_returns_the_place_of_a_key(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    fill(h, "a", 9)
    for end in (Ack, Retry, Release, lambda lease: Fail(lease, "for good")):
        h.must_settle(end(h.reserve_one().lease))
    running = h.reserve_one()
    assert_equal(h.reserve(5), [], "reserved beside the one in flight")
    h.cancel(running.job.id)
    assert_equal(h.reserve(5), [], "reserved while the cancelled job still runs")
    h.must_settle(Release(running.lease))
    h.reserve_one()
    assert_equal(h.reserve(5), [], "reserved before the lease expires")
    h.advance(LEASE)
    assert_equal(len(h.reserve(5)), 1, "jobs reserved when the lease has expired")
    h.advance(LEASE)
    assert_equal(h.reap(), 1, "leases that reap has ended")
    reservation = h.reserve_one()
    assert_equal(h.reserve(5), [], "reserved beside the one after the reap")
    h.advance(LEASE)
    assert_equal(h.report_outage(reservation.lease), [True], "the outage")
    assert_equal(len(h.reserve(5)), 1, "jobs reserved after an outage")
    assert_equal(h.reap(worker="w"), 1, "leases of the dead worker")
    assert_equal(len(h.reserve(5)), 1, "jobs reserved after the end of the worker")


@case("L3", "L10", needs=KEY_LIMITS)
def the_jobs_of_a_key_keep_their_order(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    first = fill(h, "a", 3)
    running = h.reserve_one()
    assert_equal(h.reserve(5), [], "reserved while the key is full")
    h.advance(1)
    later = fill(h, "a", 2)
    for job in (*first[1:], *later):
        h.must_settle(Ack(running.lease))
        h.advance(1)
        [running] = reserve_some(h, 1, limit=5)
        assert_equal(running.job.id, job, "the next")


@case("L3", "L10", needs=KEY_LIMITS)
def a_job_that_waited_for_its_key_comes_before_jobs_that_are_newer(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    [first, second] = fill(h, "a", 2)
    running = h.reserve_one()
    assert_equal(running.job.id, first, "the first")
    assert_equal(h.reserve(5), [], "reserved while the key is full")
    h.advance(SECOND)
    [other] = fill(h, None, 1)
    h.must_settle(Ack(running.lease))
    assert_equal(h.reserve_ids(2), [second, other], "reserved: the older job is first")


@case("L3", "L10", needs=KEY_LIMITS | {Feature.PRIORITY})
def the_place_of_a_key_goes_to_the_highest_priority(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    low = fill(h, "a", 2)
    running = h.reserve_one()
    assert_equal(h.reserve(5), [], "reserved while the key is full")
    [high] = fill(h, "a", 1, priority=9)
    h.must_settle(Ack(running.lease))
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, high, "the next")
    h.must_settle(Release(reservation.lease))
    assert_equal(h.reserve_ids(5), [high], "the next after a release")
    assert_equal(h.state(low[1]), State.READY, "the state of the low one")


@case("L3", "L10", needs=KEY_LIMITS | {Feature.TYPES})
def a_job_of_a_type_that_nobody_reserves_does_not_take_the_place_of_its_key(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    fill(h, "a", 3, type="unknown")
    known = fill(h, "a", 3, type="known")
    for job in known:
        reservation = h.reserve_one(types=["known"])
        assert_equal(reservation.job.id, job, "reserved")
        assert_equal(h.reserve(5), [], "reserved while the key is full, of any type")
        h.must_settle(Ack(reservation.lease))
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(paused_until=bounds.MAX_INSTANT), type="unknown"))
    [last] = fill(h, "a", 1, type="known")
    assert_equal(h.reserve_ids(5), [last], "reserved beside a paused type")


@case("L3", needs=KEY_LIMITS)
def key_limits_count_their_own_queue_and_space_only(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    configure_keys(h, queue="limited", max_inflight=1)
    for queue in (QUEUE, "limited", "free"):
        fill(h, "a", 2, queue=queue)
    assert_equal(len(h.reserve(9, queues=["free"])), 2, "jobs reserved in a queue without key limits")
    assert_equal(len(h.reserve(9, queues=["limited"])), 1, "jobs reserved in another queue")
    assert_equal(len(h.reserve(9)), 1, "jobs reserved in the queue")
    if h.capabilities.has(Feature.SPACES):
        other = h.open_other_space()
        other.do(Configure(queue=QUEUE, settings=QueueSettings(key_max_inflight=1)))
        other.enqueue([h.job(limit_key="a")], now=h.now_or_none)
        assert_equal(len(other.reserve([QUEUE], limit=9, lease_for=LEASE, now=h.now_or_none)), 1, "in another space")


@case("L3", needs=KEY_LIMITS)
def key_limits_apply_beside_the_limits_of_queue_and_type(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(max_inflight=4, key_max_inflight=2)))
    a, b = fill(h, "a", 3), fill(h, "b", 3)
    assert_equal(h.reserve_ids(10), [*a[:2], *b[:2]], "reserved")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(max_inflight=5, key_max_inflight=2)))
    [free] = fill(h, None, 1)
    assert_equal(h.reserve_ids(10), [free], "reserved within the limit of the queue")


@case("L3", needs=KEY_LIMITS | {Feature.SCHEDULE})
def key_limits_work_with_isolation_and_max_bytes(h: Harness) -> None:
    second = enqueue_isolated(h, limit_key="a", delay=1)
    first = enqueue_isolated(h, limit_key="a")
    configure_keys(h, max_inflight=1)
    h.advance(1)
    others = fill(h, "b", 1, payload=b"1" * 100) + fill(h, "c", 1, payload=b"1" * 100)
    [alone] = reserve_some(h, 1, limit=5, isolation=Isolation.ALONE)
    assert_equal(alone.job.id, first, "the isolated job")
    assert_equal(h.reserve_ids(5, isolation=Isolation.ALONE, max_bytes=150), others[:1], "beside the full key")
    assert_equal(h.reserve_ids(5, isolation=Isolation.STOP), others[1:], "the rest: the isolated job waits for its key")
    h.must_settle(Ack(alone.lease))
    assert_equal(h.reserve(5, isolation=Isolation.STOP), [], "reserved before an isolated job")
    assert_equal(h.reserve_ids(5, isolation=Isolation.ALONE), [second], "the second isolated job")


@case("L3", "L11", needs=KEY_LIMITS | {Feature.DOMAIN})
def the_head_of_a_domain_waits_for_its_key_and_the_domain_for_its_head(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    [full] = fill(h, "a", 1)
    head = h.enqueue_job(limit_key="a", domain="d").id
    second = h.enqueue_job(limit_key="b", domain="d").id
    other = h.enqueue_job(limit_key="b", domain="e").id
    reservations = h.reserve(5)
    assert_equal([one.job.id for one in reservations], [full, other], "reserved: the domain waits for its head")
    h.must_settle(*[Ack(one.lease) for one in reservations])
    [running] = reserve_some(h, 1, limit=5)
    assert_equal(running.job.id, head, "the head")
    h.must_settle(Ack(running.lease))
    assert_equal(h.reserve_ids(5), [second], "the next of the domain")


# Changed limits ------------------------------------------------------------------------------------------------------


@case("L3", needs=KEY_LIMITS)
def key_limits_apply_to_jobs_that_wait_or_run_already(h: Harness) -> None:
    jobs = fill(h, "a", 6)
    assert_equal(h.reserve_ids(2), jobs[:2], "without a limit")
    configure_keys(h, max_inflight=3)
    assert_equal(h.reserve_ids(6), jobs[2:3], "up to a new limit")
    configure_keys(h, max_inflight=5)
    assert_equal(h.reserve_ids(6), jobs[3:5], "up to a raised limit")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings()))
    assert_equal(h.reserve_ids(6), jobs[5:], "without a limit again")


@case("L3", needs=KEY_LIMITS)
def a_lowered_key_limit_applies_when_jobs_have_ended(h: Harness) -> None:
    jobs = fill(h, "a", 6)
    configure_keys(h, max_inflight=3)
    running = reserve_some(h, 3)
    configure_keys(h, max_inflight=1)
    h.must_settle(*[Ack(one.lease) for one in running[:2]])
    assert_equal(h.reserve(6), [], "reserved while one is in flight")
    h.must_settle(Ack(running[2].lease))
    assert_equal(h.reserve_ids(6), jobs[3:4], "reserved")


@case("L3", needs=KEY_LIMITS)
def a_large_backlog_of_a_full_key_delays_other_jobs_by_a_few_reserves_at_most(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    for _ in range(2):
        h.store.enqueue(h.job_batch([b"1"] * (BACKLOG // 2), limit_key="a"), now=h.now_or_none)
    [other] = fill(h, None, 1)
    running = h.reserve_one()
    calls = 0
    while not (found := h.reserve_ids(1)):
        calls += 1
        assert calls < BACKLOG // 100, f"wanted the job behind {BACKLOG} jobs of a full key, got none in {calls} calls"
    assert_equal(found, [other], "the job of no key")
    h.must_settle(Ack(running.lease))
    assert_equal(h.reserve_one().job.limit_key, "a", "the key of the next job")
    configure_keys(h, max_inflight=2)
    assert_equal(len(h.reserve(5)), 1, "jobs reserved after the limit was raised")


@case("L3", needs=KEY_LIMITS)
def a_job_with_a_limit_key_is_not_leased_at_enqueue(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    batch = h.job_batch([b"1"] * 600, limit_keys=[None] * 599 + ["a"])
    stored = h.store.do(Enqueue(jobs=batch, lease=LeaseTerms(lease_for=LEASE), now=h.now_or_none))
    assert_equal(stored.reservations, [], "leased")
