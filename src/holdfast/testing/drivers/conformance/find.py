"""Read jobs: get, inspect, find, any_open and counts."""

from __future__ import annotations

import dataclasses
from typing import Any

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import FIND_BYTES, AnyOpen, Counts, Find, Inspect
from holdfast.errors import InvalidInput
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.model.lease import Note
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, TYPE, Harness

JOBS = {Feature.JOBS}


@case("L9")
def get_and_inspect_find_no_unknown_job(h: Harness) -> None:
    assert_equal((h.store.get("unknown"), h.store.do(Inspect(job_ids=["unknown"]))), (None, {}), "get and inspect")


@case("L4", needs=JOBS)
def no_read_shows_a_token(h: Harness) -> None:
    reservation = h.reserve_new_job(name="n")
    h.must_extend(reservation.lease, note=Note(progress=b"1") if h.capabilities.has(Feature.NOTES) else None)
    secret = reservation.lease.token.split(".")[1]
    for _ in range(2):  # once in flight, once done
        shown = (h.get(reservation.job.id), h.inspect(reservation.job.id), h.store.find(), h.store.counts(), h.ledger())
        assert secret not in repr(shown), f"wanted no token, got {shown!r}"
        h.must_settle(Ack(reservation.lease))


@case("L9")
def inspect_returns_each_known_job_of_any_state_once(h: Harness) -> None:
    done, inflight, ready = h.reserve_new_job(), h.reserve_new_job(), h.enqueue_job()
    h.must_settle(Ack(done.lease))
    ids = (ready.id, done.job.id, inflight.job.id)
    found = h.store.do(Inspect(job_ids=[*ids, "unknown", ready.id]))
    assert_equal({job_id: one.job for job_id, one in found.items()}, {job_id: h.get(job_id) for job_id in ids}, "jobs")
    assert_equal(h.store.do(Inspect(job_ids=[])), {}, "no jobs")


@case("L9")
def inspect_without_payloads_leaves_out_only_contents(h: Harness) -> None:
    """Payload, result, progress and checkpoint may be large: a caller that asks for the lease reads none of them."""
    done, inflight = h.reserve_new_job(payload=b'"a"'), h.reserve_new_job(payload=b'"b"')
    notes = Note(progress=b"1", checkpoint=b"2") if h.capabilities.has(Feature.NOTES) else None
    for one in (done, inflight):
        h.must_extend(one.lease, note=notes)
    h.must_settle(Ack(done.lease))
    ids = [done.job.id, inflight.job.id]
    wanted = {
        job_id: dataclasses.replace(
            one,
            job=replace(one.job, payload=b"", result=None),
            note=None if one.note is None else replace(one.note, progress=None, checkpoint=None),
        )
        for job_id, one in h.store.do(Inspect(job_ids=ids)).items()
    }
    assert_equal(h.store.do(Inspect(job_ids=ids, payloads=False)), wanted, "the jobs without their contents")


@case("L9")
def inspect_returns_the_same_job_as_get(h: Harness) -> None:
    reservation = h.reserve_new_job()
    assert_equal(h.inspect(reservation.job.id).job, h.get(reservation.job.id), "the job in flight")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.inspect(reservation.job.id).job, h.get(reservation.job.id), "the job done")


@case("L9")
def an_ended_job_has_no_lease(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(1)
    h.must_settle(Fail(reservation.lease, reason="no"))
    inspection = h.inspect(reservation.job.id)
    assert_equal(
        (inspection.worker, inspection.fence, inspection.reserved_at, inspection.expires_at),
        ("", None, None, None),
        "its lease",
    )
    assert_equal(inspection.ended_at, h.now, "ended_at")


@case("L9", needs=JOBS)
def find_returns_jobs_in_the_order_of_their_ids(h: Harness) -> None:
    for job_id in ("b", "a:1", "a.1", "B", "10", "9", "a-1", "a_1"):
        h.enqueue_job(id=job_id)
    wanted = sorted(("b", "a:1", "a.1", "B", "10", "9", "a-1", "a_1"))
    assert_equal([job.id for job in h.store.find().items], wanted, "the ids")


@case("L9", needs=JOBS)
def find_returns_every_job_page_by_page(h: Harness) -> None:
    jobs = [h.enqueue_job().id for _ in range(5)]
    pages, cursor = [], None
    for _ in range(3):
        page = h.store.find(limit=2, after=cursor)
        pages.append([job.id for job in page.items])
        cursor = page.cursor
    assert_equal(pages, [jobs[:2], jobs[2:4], jobs[4:]], "the pages")
    assert_equal(cursor, None, "the cursor at the end")


@case("L9", needs=JOBS)
def find_returns_the_newest_jobs_first_if_asked(h: Harness) -> None:
    ids = _one_of_each_state(h)
    newest = h.store.do(Find(newest=True))
    assert_equal([job.id for job in newest.items], sorted(ids.values(), reverse=True), "the ids")
    assert_equal(newest.cursor, None, "the cursor at the end")
    where = JobFilter(states=(State.DEAD, State.READY), queue=QUEUE)
    wanted = sorted((ids[State.DEAD], ids[State.READY]), reverse=True)
    assert_equal([job.id for job in h.store.do(Find(where=where, newest=True))], wanted, "the ids of a filtered list")


@case("L9", needs=JOBS)
def find_returns_every_job_page_by_page_the_newest_first(h: Harness) -> None:
    jobs = [h.enqueue_job(name="even" if number % 2 == 0 else "odd").id for number in range(6)]
    jobs.reverse()
    for where, wanted in ((JobFilter(), jobs), (JobFilter(name="even"), jobs[1::2])):
        found: list[str] = []
        cursor = None
        for _ in range(len(wanted)):
            page = h.store.do(Find(where=where, limit=1, after=cursor, newest=True))
            found += [job.id for job in page]
            cursor = page.cursor
        assert_equal((found, cursor), (wanted, None), f"the jobs for {where}, and the last cursor")


@case("L9", needs=JOBS)
def a_last_page_has_no_cursor(h: Harness) -> None:
    h.enqueue_job()
    h.enqueue_job()
    assert_equal(h.store.find(limit=2).cursor, None, "the cursor of a full last page")
    assert_equal(h.store.find(JobFilter(queue="none")).cursor, None, "the cursor of an empty list")


@case("L9", needs=JOBS)
def a_page_of_large_jobs_is_bounded_by_their_bytes(h: Harness) -> None:
    large, count = FIND_BYTES // 3, 5
    ids = [h.enqueue_job(payload=b'"' + b"x" * large + b'"').id for _ in range(count)]
    for newest, wanted in ((False, ids), (True, ids[::-1])):
        for where in (JobFilter(), JobFilter(type=TYPE)):
            pages, cursor = [], None
            for _ in range(2):
                page = h.store.do(Find(where=where, after=cursor, newest=newest))
                pages.append([job.id for job in page])
                cursor = page.cursor
            assert_equal((pages, cursor), ([wanted[:3], wanted[3:]], None), "the pages, and the last cursor")


@case("L9", needs=JOBS)
def pages_of_a_filtered_list_are_filled_up_to_the_limit(h: Harness) -> None:
    wanted = []
    for number in range(9):
        job = h.enqueue_job(name="even" if number % 2 == 0 else "odd")
        wanted += [job.id] * (number % 2 == 0)
    first = h.store.find(JobFilter(name="even"), limit=3)
    second = h.store.find(JobFilter(name="even"), limit=3, after=first.cursor)
    assert_equal([job.id for job in first.items + second.items], wanted, "the jobs")
    assert_equal((len(first.items), second.cursor), (3, None), "the first page and the last cursor")


@case("L9", needs=JOBS)
def find_returns_jobs_in_every_state(h: Harness) -> None:
    ids = _one_of_each_state(h)
    states = {job.id: job.state for job in h.store.find().items}
    assert_equal(states, {job_id: state for state, job_id in ids.items()}, "the states")


@case("L9", needs=JOBS)
def find_filters_by_state(h: Harness) -> None:
    ids = _one_of_each_state(h)
    for state, job_id in ids.items():
        found_ids = [job.id for job in h.store.find(JobFilter(states=(state,))).items]
        assert_equal(found_ids, [job_id], f"jobs that are {state}")
    two = h.store.find(JobFilter(states=(State.DEAD, State.READY))).items
    assert_equal([job.id for job in two], sorted([ids[State.DEAD], ids[State.READY]]), "jobs in two states")


@case("L9", needs={Feature.JOBS, Feature.KEY, Feature.DOMAIN})
def find_combines_all_conditions_of_the_filter(h: Harness) -> None:
    plain = h.enqueue_job()
    special = h.enqueue_job(queue="other", type="kind", domain="d", name="n", idempotency_key="k")
    for where in (
        JobFilter(queue="other"),
        JobFilter(type="kind"),
        JobFilter(domain="d"),
        JobFilter(name="n"),
        JobFilter(idempotency_key="k"),
        JobFilter(queue="other", type="kind", domain="d", name="n", idempotency_key="k"),
    ):
        assert_equal([job.id for job in h.store.find(where).items], [special.id], f"jobs for {where}")
    assert_equal(h.store.find(JobFilter(queue="other", type=TYPE)).items, [], "jobs for conditions that no job meets")
    both = h.store.find(JobFilter()).items
    assert_equal([job.id for job in both], [plain.id, special.id], "jobs for no condition")


@case("L9", needs=JOBS)
def find_filters_dead_letters_by_reason(h: Harness) -> None:
    first, second = h.reserve_new_job(), h.reserve_new_job()
    h.must_settle(Fail(first.lease, reason="bad payload"), Fail(second.lease, reason="bad"))
    dead_letters = h.store.find(JobFilter(reason="bad payload")).items
    assert_equal([job.id for job in dead_letters], [first.job.id], "dead letters")


@case("L2", needs=JOBS)
def find_filters_by_the_instant_of_creation(h: Harness) -> None:
    ids = {at: h.enqueue_job(created_at=at).id for at in (10, 20, 30)}
    for where, wanted in (
        (JobFilter(created_from=20), [20, 30]),
        (JobFilter(created_before=20), [10]),
        (JobFilter(created_from=11, created_before=30), [20]),
    ):
        assert_equal([job.id for job in h.store.find(where).items], [ids[at] for at in wanted], f"jobs for {where}")


@case("L9", needs=JOBS)
def find_refuses_invalid_page_sizes(h: Harness) -> None:
    for invalid in (0, -1, 10_001):
        with assert_raises(InvalidInput, f"limit={invalid}"):
            h.store.find(limit=invalid)


@case("L9", needs=JOBS)
def a_job_is_open_until_it_has_ended(h: Harness) -> None:
    any_open = [h.store.do(AnyOpen(queues=[QUEUE], types=[TYPE]))]
    h.enqueue_job()
    any_open.append(h.store.do(AnyOpen(queues=[QUEUE], types=[TYPE])))
    reservation = h.reserve_one()
    any_open.append(h.store.do(AnyOpen(queues=[QUEUE], types=[TYPE])))
    h.advance(LEASE)
    any_open.append(h.store.do(AnyOpen(queues=[QUEUE], types=[TYPE])))  # expired but not yet reaped
    h.reap()
    reservation = h.reserve_one()
    h.must_settle(Ack(reservation.lease))
    any_open.append(h.store.do(AnyOpen(queues=[QUEUE], types=[TYPE])))
    assert_equal(any_open, [False, True, True, True, False], "any_open for: no job, ready, running, expired, done")


@case("L9", needs={Feature.SCHEDULE, Feature.JOBS})
def a_scheduled_job_is_open(h: Harness) -> None:
    h.enqueue_job(run_at=h.now + SECOND)
    assert h.store.do(AnyOpen(queues=[QUEUE], types=[TYPE])), "wanted the scheduled job to be open"


@case("L9", needs={Feature.DOMAIN, Feature.JOBS})
def a_job_that_waits_for_its_turn_in_a_domain_is_open(h: Harness) -> None:
    h.enqueue_job(domain="d", type="first")
    h.enqueue_job(domain="d", type="second")
    any_open = [h.store.do(AnyOpen(queues=[QUEUE], types=["second"]))]
    [reservation] = h.reserve(5)
    any_open.append(h.store.do(AnyOpen(queues=[QUEUE], types=["second"])))
    h.must_settle(Ack(reservation.lease))
    any_open.append(h.store.do(AnyOpen(queues=[QUEUE], types=["first"])))
    assert_equal(
        any_open,
        [True, True, False],
        "any_open for: behind a ready head, behind a running head, of the type that is done",
    )


@case("L9", needs=JOBS)
def any_open_filters_by_queue_and_type(h: Harness) -> None:
    h.enqueue_job(queue="a", type="x")
    h.reserve_new_job(queue="b", type="y")
    answers = {(queue, type_): h.store.do(AnyOpen(queues=[queue], types=[type_])) for queue in "ab" for type_ in "xy"}
    wanted = {("a", "x"): True, ("a", "y"): False, ("b", "x"): False, ("b", "y"): True}
    assert_equal(answers, wanted, "any_open by queue and type")
    assert h.store.do(AnyOpen(queues=["c", "b", "b"], types=["z", "y"])), "wanted one of several queues and types"


@case("L9", needs={Feature.SPACES, Feature.JOBS})
def any_open_sees_only_its_own_space(h: Harness) -> None:
    h.enqueue_job()
    assert not h.store.space("other").do(AnyOpen(queues=[QUEUE], types=[TYPE])), "wanted no open job in another space"


@case("L9", needs={Feature.JOBS, Feature.SCHEDULE})
def counts_has_one_row_per_queue_and_type_with_one_number_per_state(h: Harness) -> None:
    _one_of_each_state(h)
    h.enqueue_job(run_at=h.now + SECOND)
    h.enqueue_job(queue="a", type="x")
    h.enqueue_job(queue="a", type="w")
    h.enqueue_job(queue="a", type="x")
    wanted = [
        QueueCounts(queue="a", type="w", ready=1),
        QueueCounts(queue="a", type="x", ready=2),
        QueueCounts(queue=QUEUE, type=TYPE, ready=1, scheduled=1, inflight=1, done=1, dead=1, cancelled=1),
    ]
    assert_equal(h.store.counts(now=h.now_or_none), wanted, "counts")


@case("L9", needs=JOBS)
def counts_filters_by_queue(h: Harness) -> None:
    for queue in ("a", "b", "c"):
        h.enqueue_job(queue=queue)
    counts = h.store.counts(["c", "a"], now=h.now_or_none)
    assert_equal([row.queue for row in counts], ["a", "c"], "the queues")
    assert_equal(h.store.counts(["unknown"], now=h.now_or_none), [], "counts of an unknown queue")


@case("L9", needs={Feature.JOBS, Feature.SCHEDULE})
def counts_filters_by_state(h: Harness) -> None:
    _one_of_each_state(h)
    h.enqueue_job(run_at=h.now + SECOND)
    every = {"ready": 1, "scheduled": 1, "inflight": 1, "done": 1, "dead": 1, "cancelled": 1}
    for states in (
        (State.READY,),
        (State.DONE,),
        (State.INFLIGHT, State.DEAD),
        (State.DEAD, State.CANCELLED),
        tuple(State),
    ):
        words = {*states, "scheduled"} if State.READY in states else set(states)
        wanted: dict[str, Any] = {word: number for word, number in every.items() if word in words}
        counts = h.store.do(Counts(states=states, now=h.now_or_none))
        assert_equal(counts, [QueueCounts(queue=QUEUE, type=TYPE, **wanted)], f"counts of {', '.join(states)}")
    assert_equal(h.store.do(Counts(states=(), now=h.now_or_none)), [], "counts of no state")
    with assert_raises(InvalidInput, "an unknown state"):
        h.store.do(Counts(states=["lost"]))  # type: ignore[list-item] # the mistake that is tested


@case("L2", needs={Feature.SCHEDULE, Feature.JOBS})
def a_job_counts_as_scheduled_until_it_is_due(h: Harness) -> None:
    h.enqueue_job(run_at=h.now + 10)
    for moved, wanted in ((9, (0, 1)), (1, (1, 0)), (1, (1, 0))):
        h.advance(moved)
        [row] = h.store.counts(now=h.now_or_none)
        assert_equal((row.ready, row.scheduled), wanted, "ready and scheduled")


@case("L2", needs={Feature.SCHEDULE, Feature.JOBS})
def counts_has_the_age_of_the_oldest_ready_job(h: Harness) -> None:
    ages = []
    h.enqueue_job(run_at=h.now + 10)
    h.enqueue_job(queue="a")
    for moved in (9, 1, 5):
        h.advance(moved)
        ages.append([row.oldest_ready_age for row in h.store.counts(now=h.now_or_none)])
    assert_equal(ages, [[9, None], [10, 0], [15, 5]], "the ages of a job and of a scheduled job")
    lease = h.reserve_one().lease
    h.enqueue_job()
    h.advance(3)
    [row] = h.store.counts([QUEUE], now=h.now_or_none)
    assert_equal(row.oldest_ready_age, 3, "the age behind a job in flight")
    h.must_settle(Release(lease))
    [row] = h.store.counts([QUEUE], now=h.now_or_none)
    assert_equal(row.oldest_ready_age, 8, "the age after a release, which keeps the place in the lane")


@case("L9", needs={Feature.SCHEDULE, Feature.JOBS})
def a_job_in_backoff_counts_as_scheduled(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease, delay=SECOND))
    assert_equal(h.store.counts(now=h.now_or_none), [QueueCounts(queue=QUEUE, type=TYPE, scheduled=1)], "counts")


@case("L9", needs=JOBS)
def counts_change_with_every_transition(h: Harness) -> None:
    h.enqueue_job()
    counts = []
    reservation = h.reserve_one()
    counts.append(h.store.counts(now=h.now_or_none))
    h.advance(LEASE)
    counts.append(h.store.counts(now=h.now_or_none))  # expired but not yet reaped
    h.reap()
    counts.append(h.store.counts(now=h.now_or_none))
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    counts.append(h.store.counts(now=h.now_or_none))
    h.requeue(reservation.job.id)
    h.cancel(reservation.job.id)
    counts.append(h.store.counts(now=h.now_or_none))
    h.purge(reservation.job.id)
    counts.append(h.store.counts(now=h.now_or_none))
    words = ("inflight", "inflight", "ready", "dead", "cancelled")
    numbers: list[dict[str, Any]] = [{word: 1} for word in words]
    wanted = [[QueueCounts(queue=QUEUE, type=TYPE, **number)] for number in numbers]
    assert_equal(counts, [*wanted, []], "counts after each transition")


def _one_of_each_state(h: Harness) -> dict[State, str]:
    done, dead = h.reserve_new_job(), h.reserve_new_job()
    h.must_settle(Ack(done.lease), Fail(dead.lease, reason="no"))
    running = h.reserve_new_job()
    cancelled = h.enqueue_job()
    h.cancel(cancelled.id)
    return {
        State.DONE: done.job.id,
        State.DEAD: dead.job.id,
        State.INFLIGHT: running.job.id,
        State.CANCELLED: cancelled.id,
        State.READY: h.enqueue_job().id,
    }
