"""All spaces of a store: listing them, finding those with expired leases, and removing one."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.answers import SpaceRemoval
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Read, RemoveSpace, Settings, Spaces, Write
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, JobNotInflight, LedgerTrimmed, SpaceInUse
from holdfast.model.lease import Enqueued
from holdfast.model.ledger_reader import register_reader
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

SPACES = {Feature.SPACES}
LEDGER = SPACES | {Feature.LEDGER}


def _names(h: Harness, *, expired: bool = False, limit: int = 10_000) -> list[str]:
    """Return the names of the spaces that this case has made, read page by page; other cases have made many more."""
    names: list[str] = []
    after: str | None = h.space_name[:-1]
    while after is not None and after.startswith(h.space_name[:-1]):
        page = h.store.do(Spaces(after=after, limit=limit, has_expired_leases=expired, now=h.now_or_none))
        names += page.items
        after = page.cursor
    return [name for name in names if name.startswith(h.space_name)]


def _space(h: Harness, suffix: str, *, jobs: int = 1) -> Store:
    store = h.store.space(f"{h.space_name}-{suffix}")
    store.enqueue([h.job() for _ in range(jobs)], now=h.now_or_none)
    return store


def _remove(h: Harness, suffix: str = "", *, force: bool = False, limit: int = 10_000) -> list[SpaceRemoval]:
    """Remove a space in as many steps as it needs."""
    name = f"{h.space_name}-{suffix}" if suffix else h.space_name
    steps = [h.store.do(RemoveSpace(name=name, force=force, limit=limit, now=h.now_or_none))]
    while steps[-1].more and len(steps) < 100:
        steps.append(h.store.do(RemoveSpace(name=name, force=force, limit=limit, now=h.now_or_none)))
    return steps


def _fill(h: Harness) -> None:
    """Write to every table that a verb writes to."""
    dead = h.reserve_new_job()
    h.must_settle(Fail(dead.lease, reason="no"))
    h.enqueue_job(idempotency_key="k", domain="d")
    h.enqueue_job(domain="d")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(max_inflight=5)))
    h.store.do(Write(changes=[Change(kind="kind", key="key", value=b"1"), register_reader("reader", cursor=None)]))


@case("L3", needs=SPACES)
def spaces_with_rows_are_listed_in_order(h: Harness) -> None:
    for suffix in ("c", "a", "b"):
        _space(h, suffix)
    h.store.space(f"{h.space_name}-empty")
    wanted = [f"{h.space_name}-{suffix}" for suffix in "abc"]
    for limit in (1, 2, 3, 10_000):
        assert_equal(_names(h, limit=limit), wanted, f"the spaces, in pages of {limit}")


@case("L3", needs=SPACES | {Feature.LIMITS, Feature.REGISTRY})
def a_space_is_listed_whatever_it_contains(h: Harness) -> None:
    h.store.space(f"{h.space_name}-a").do(Configure(queue=QUEUE, settings=QueueSettings(max_inflight=5)))
    h.store.space(f"{h.space_name}-b").do(
        Write(changes=[Change(kind="kind", key="key", value=b"1")], now=h.now_or_none)
    )
    ended = _space(h, "c")
    [reservation] = ended.reserve([QUEUE], limit=1, lease_for=LEASE, now=h.now_or_none)
    ended.settle([Ack(reservation.lease)], now=h.now_or_none)
    assert_equal(_names(h), [f"{h.space_name}-{suffix}" for suffix in "abc"], "the spaces")


@case("L3", "L2", needs=SPACES)
def spaces_with_expired_leases_are_found(h: Harness) -> None:
    for suffix, lease in (("a", 10), ("b", LEASE), ("c", 10), ("d", 10)):
        _space(h, suffix).reserve([QUEUE], limit=1, lease_for=lease, now=h.now_or_none)
    _space(h, "e")
    h.advance(9)
    assert_equal(_names(h, expired=True), [], "the spaces a microsecond early")
    h.advance(1)
    wanted = [f"{h.space_name}-{suffix}" for suffix in "acd"]
    for limit in (1, 2, 10_000):
        assert_equal(_names(h, expired=True, limit=limit), wanted, f"the spaces in time, in pages of {limit}")
    for name in wanted:
        assert_equal(h.store.space(name).reap(now=h.now_or_none), 1, f"leases ended in {name}")
    assert_equal(_names(h, expired=True), [], "the spaces after their repair")


@case("L3", "L2", needs=SPACES)
def a_lease_that_was_extended_has_not_expired(h: Harness) -> None:
    [reservation] = _space(h, "a").reserve([QUEUE], limit=1, lease_for=10, now=h.now_or_none)
    space = h.store.space(f"{h.space_name}-a")
    space.extend([reservation.lease], lease_for=LEASE, now=h.now_or_none)
    h.advance(10)
    space.reap(now=h.now_or_none)
    assert_equal(_names(h, expired=True), [], "the spaces with expired leases")
    h.advance(LEASE - 10)
    assert_equal(_names(h, expired=True), [f"{h.space_name}-a"], "the spaces when it has expired")


@case("L9", needs=LEDGER | {Feature.REGISTRY, Feature.KEY, Feature.DOMAIN, Feature.LIMITS, Feature.JOBS})
def nothing_is_left_of_a_removed_space(h: Harness) -> None:
    _fill(h)
    steps = _remove(h)
    assert_equal([step.more for step in steps], [False], "whether more is left")
    assert_equal(_names(h), [], "the spaces")
    store = h.store
    assert_equal((store.find().items, store.counts(now=h.now_or_none)), ([], []), "find and counts")
    assert_equal(store.ledger().items, [], "the ledger")
    assert_equal(store.do(Settings(queue=QUEUE)), QueueSettings(), "the settings")
    assert_equal(store.do(Read(kind="kind", keys=["key"], now=h.now_or_none)), [None], "the registry")
    job = h.job(idempotency_key="k")
    assert_equal(store.enqueue([job], now=h.now_or_none), [Enqueued(id=job.id, existed=False)], "the key is free")


@case("L9", needs=SPACES)
def other_spaces_stay_as_they_are(h: Harness) -> None:
    job = h.enqueue_job()
    _space(h, "other", jobs=3)
    _remove(h, "other")
    assert_equal(h.get(job.id), job, "the job of another space")
    assert_equal(_names(h), [h.space_name], "the spaces")


@case("L4", needs=SPACES)
def fences_continue_to_grow_in_a_space_that_was_removed(h: Harness) -> None:
    for _ in range(3):
        reservation = h.reserve_new_job()
        h.must_settle(Ack(reservation.lease))
    _remove(h)
    again = h.reserve_new_job()
    assert again.lease.fence > reservation.lease.fence, (
        f"wanted a fence above {reservation.lease.fence}, got {again.lease.fence}"
    )


@case("L4", needs=SPACES | {Feature.REGISTRY})
def registry_versions_continue_to_grow_in_a_space_that_was_removed(h: Harness) -> None:
    change = Change(kind="kind", key="key", value=b"1")
    [old] = [h.store.do(Write(changes=[change], now=h.now_or_none))[0] for _ in range(3)][-1:]
    _remove(h)
    [new] = h.store.do(Write(changes=[change], now=h.now_or_none))
    assert old is not None, "wanted an entry"
    assert new is not None, "wanted an entry"
    assert new.version > old.version, f"wanted a version above {old.version}, got {new.version}"


@case("L13", needs=LEDGER)
def a_cursor_of_a_removed_ledger_skips_no_row_of_the_new_one(h: Harness) -> None:
    for _ in range(3):
        h.must_settle(Ack(h.reserve_new_job().lease))
    cursors = h.store.ledger().cursors
    _remove(h)
    new = h.reserve_new_job()
    h.must_settle(Ack(new.lease))
    for cursor in cursors:
        try:
            rows = [row.job_id for row in h.store.ledger(after=cursor)]
        except (LedgerTrimmed, InvalidInput):
            continue
        assert_equal(rows, [new.job.id], f"the rows after the old cursor {cursor}")


@case("L9", needs=SPACES)
def a_space_with_a_job_in_flight_is_not_removed(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.enqueue_job()
    with h.assert_unchanged(), assert_raises(SpaceInUse, "a removal with a job in flight") as caught:
        _remove(h)
    assert_equal((caught[0].space, caught[0].leases), (h.space_name, 1), "the facts of the error")
    h.advance(LEASE)
    with assert_raises(SpaceInUse, "a removal with a lease that was not reaped"):
        _remove(h)
    h.store.reap(now=h.now_or_none)
    _remove(h)
    assert_equal(h.store.get(reservation.job.id), None, "the job")


@case("L9", "L5", needs=SPACES | {Feature.JOBS})
def a_forced_removal_takes_jobs_in_flight(h: Harness) -> None:
    reservation = h.reserve_new_job()
    _remove(h, force=True)
    assert_answers(h.settle(Ack(reservation.lease)), JobNotInflight)
    assert_equal((h.store.find().items, h.reserve()), ([], []), "jobs found and reserved")


@case("L9", needs=SPACES | {Feature.JOBS, Feature.DOMAIN})
def a_removal_takes_bounded_steps(h: Harness) -> None:
    for number in range(5):
        h.enqueue_job(domain="d" if number % 2 else None)
    first = h.store.do(RemoveSpace(name=h.space_name, limit=2, now=h.now_or_none))
    assert_equal((first.rows, first.more), (2, True), "rows removed by the first step, and whether more are left")
    assert_equal(len(h.store.find().items), 3, "jobs left")
    steps = _remove(h, limit=2)
    assert all(step.rows <= 2 for step in steps), f"wanted at most 2 rows per step, got {steps}"
    assert_equal((h.store.find().items, _names(h)), ([], []), "jobs and spaces left")


@case("L11", needs=SPACES | {Feature.DOMAIN})
def a_space_can_be_used_between_two_steps(h: Harness) -> None:
    for _ in range(4):
        h.enqueue_job(domain="d")
    h.store.do(RemoveSpace(name=h.space_name, limit=1, now=h.now_or_none))
    h.reserve()
    h.advance(SECOND)
    _remove(h, force=True)
    job = h.enqueue_job(domain="d")
    assert_equal(h.reserve_ids(), [job.id], "reserved in the new space")


@case("L3", needs=SPACES)
def an_unknown_space_has_nothing_to_remove(h: Harness) -> None:
    assert_equal(_remove(h, "unknown"), [SpaceRemoval(rows=0, more=False)], "the steps")
    for invalid in ("", "a b", "a/b"):
        with assert_raises(InvalidInput, f"space {invalid!r}"):
            h.store.do(RemoveSpace(name=invalid))
    with assert_raises(InvalidInput, "a limit of 0"):
        h.store.do(Spaces(limit=0))
