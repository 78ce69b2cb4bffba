"""Looking: get, inspect, find and counts."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.contract import Feature, JobFilter, QueueCounts
from holdfast.errors import InvalidInput
from holdfast.model.job import State
from holdfast.model.lease import Note
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising
from holdfast.testing.drivers.harness import LEASE, QUEUE, TYPE, Harness


@case("L9")
def an_unknown_job_is_none(h: Harness) -> None:
    equal((h.store.get("unknown"), h.store.inspect("unknown")), (None, None), "get and inspect")


@case("L4")
def a_token_is_never_shown(h: Harness) -> None:
    held = h.held(name="n")
    h.extended(held.lease, note=Note(progress=b"1") if h.capabilities.has(Feature.NOTES) else None)
    secret = held.lease.token.split(".")[1]
    for _ in range(2):  # while it runs, and after its end
        shown = (h.get(held.job.id), h.inspect(held.job.id), h.store.find(), h.store.counts(), h.ledger())
        assert secret not in repr(shown), f"wanted no token, got {shown!r}"
        h.settled(Ack(held.lease))


@case("L9")
def an_inspection_shows_the_job_as_get_does(h: Harness) -> None:
    held = h.held()
    equal(h.inspect(held.job.id).job, h.get(held.job.id), "the job in flight")
    h.settled(Ack(held.lease))
    equal(h.inspect(held.job.id).job, h.get(held.job.id), "the job done")


@case("L9")
def an_ended_job_has_no_lease_to_inspect(h: Harness) -> None:
    held = h.held()
    h.advance(1)
    h.settled(Fail(held.lease, reason="no"))
    found = h.inspect(held.job.id)
    equal((found.worker, found.fence, found.reserved_at, found.expires_at), ("", None, None, None), "its lease")
    equal(found.ended_at, h.now, "ended_at")


@case("L9")
def jobs_are_listed_in_the_order_of_their_ids(h: Harness) -> None:
    for job_id in ("b", "a:1", "a.1", "B", "10", "9", "a-1", "a_1"):
        h.put(id=job_id)
    wanted = sorted(("b", "a:1", "a.1", "B", "10", "9", "a-1", "a_1"))
    equal([job.id for job in h.store.find().items], wanted, "the ids")


@case("L9")
def a_list_is_read_page_by_page_to_its_end(h: Harness) -> None:
    jobs = [h.put().id for _ in range(5)]
    pages, cursor = [], None
    for _ in range(3):
        page = h.store.find(limit=2, after=cursor)
        pages.append([job.id for job in page.items])
        cursor = page.cursor
    equal(pages, [jobs[:2], jobs[2:4], jobs[4:]], "the pages")
    equal(cursor, None, "the cursor at the end")


@case("L9")
def a_list_that_fits_its_page_has_no_cursor(h: Harness) -> None:
    h.put()
    h.put()
    equal(h.store.find(limit=2).cursor, None, "the cursor of a full last page")
    equal(h.store.find(JobFilter(queue="none")).cursor, None, "the cursor of an empty list")


@case("L9")
def pages_of_a_filtered_list_are_full(h: Harness) -> None:
    wanted = []
    for number in range(9):
        job = h.put(name="even" if number % 2 == 0 else "odd")
        wanted += [job.id] * (number % 2 == 0)
    first = h.store.find(JobFilter(name="even"), limit=3)
    second = h.store.find(JobFilter(name="even"), limit=3, after=first.cursor)
    equal([job.id for job in first.items + second.items], wanted, "the jobs")
    equal((len(first.items), second.cursor), (3, None), "the first page and the last cursor")


@case("L9")
def every_state_is_listed(h: Harness) -> None:
    ids = _one_of_each_state(h)
    found = {job.id: job.state for job in h.store.find().items}
    equal(found, {job_id: state for state, job_id in ids.items()}, "the states")


@case("L9")
def a_list_keeps_to_its_states(h: Harness) -> None:
    ids = _one_of_each_state(h)
    for state, job_id in ids.items():
        found = [job.id for job in h.store.find(JobFilter(states=(state,))).items]
        equal(found, [job_id], f"jobs that are {state}")
    two = h.store.find(JobFilter(states=(State.DEAD, State.READY))).items
    equal([job.id for job in two], sorted([ids[State.DEAD], ids[State.READY]]), "jobs in two states")


@case("L9")
def a_list_keeps_to_its_conditions(h: Harness) -> None:
    plain = h.put()
    special = h.put(queue="other", type="kind", domain="d", name="n", idempotency_key="k")
    for where in (
        JobFilter(queue="other"),
        JobFilter(type="kind"),
        JobFilter(domain="d"),
        JobFilter(name="n"),
        JobFilter(idempotency_key="k"),
        JobFilter(queue="other", type="kind", domain="d", name="n", idempotency_key="k"),
    ):
        equal([job.id for job in h.store.find(where).items], [special.id], f"jobs for {where}")
    equal(h.store.find(JobFilter(queue="other", type=TYPE)).items, [], "jobs for conditions that never meet")
    both = h.store.find(JobFilter()).items
    equal([job.id for job in both], [plain.id, special.id], "jobs for no condition")


@case("L9")
def dead_letters_are_found_by_their_reason(h: Harness) -> None:
    first, second = h.held(), h.held()
    h.settled(Fail(first.lease, reason="bad payload"), Fail(second.lease, reason="bad"))
    found = h.store.find(JobFilter(reason="bad payload")).items
    equal([job.id for job in found], [first.job.id], "dead letters")


@case("L2")
def jobs_are_found_by_when_they_were_created(h: Harness) -> None:
    ids = {at: h.put(created_at=at).id for at in (10, 20, 30)}
    for where, wanted in (
        (JobFilter(created_from=20), [20, 30]),
        (JobFilter(created_before=20), [10]),
        (JobFilter(created_from=11, created_before=30), [20]),
    ):
        equal([job.id for job in h.store.find(where).items], [ids[at] for at in wanted], f"jobs for {where}")


@case("L9")
def every_list_has_a_limit(h: Harness) -> None:
    for wrong in (0, -1, 10_001):
        with raising(InvalidInput, f"limit={wrong}"):
            h.store.find(limit=wrong)


@case("L9")
def a_job_is_open_until_it_has_ended(h: Harness) -> None:
    seen = [h.store.any_open([QUEUE], [TYPE])]
    h.put()
    seen.append(h.store.any_open([QUEUE], [TYPE]))
    held = h.take()
    seen.append(h.store.any_open([QUEUE], [TYPE]))
    h.advance(LEASE)
    seen.append(h.store.any_open([QUEUE], [TYPE]))  # expired, but nobody has ended it
    h.reap()
    held = h.take()
    h.settled(Ack(held.lease))
    seen.append(h.store.any_open([QUEUE], [TYPE]))
    equal(seen, [False, True, True, True, False], "whether there is one: none, ready, running, expired, done")


@case("L9", needs={Feature.SCHEDULING})
def a_job_in_the_future_is_open(h: Harness) -> None:
    h.put(run_at=h.now + SECOND)
    assert h.store.any_open([QUEUE], [TYPE]), "wanted the scheduled job to be open"


@case("L9", needs={Feature.DOMAINS})
def a_job_that_waits_for_its_turn_is_open(h: Harness) -> None:
    h.put(domain="d", type="first")
    h.put(domain="d", type="second")
    seen = [h.store.any_open([QUEUE], ["second"])]
    [held] = h.reserve(5)
    seen.append(h.store.any_open([QUEUE], ["second"]))
    h.settled(Ack(held.lease))
    seen.append(h.store.any_open([QUEUE], ["first"]))
    equal(seen, [True, True, False], "whether there is one: behind another, behind one that runs, of the type that ran")


@case("L9")
def open_jobs_are_those_of_the_queues_and_types_asked_for(h: Harness) -> None:
    h.put(queue="a", type="x")
    h.held(queue="b", type="y")
    asked = {(queue, type_): h.store.any_open([queue], [type_]) for queue in "ab" for type_ in "xy"}
    wanted = {("a", "x"): True, ("a", "y"): False, ("b", "x"): False, ("b", "y"): True}
    equal(asked, wanted, "whether there is one, by queue and type")
    assert h.store.any_open(["c", "b", "b"], ["z", "y"]), "wanted one of several queues and types"


@case("L9", needs={Feature.SPACES})
def open_jobs_are_those_of_one_space(h: Harness) -> None:
    h.put()
    assert not h.store.space("other").any_open([QUEUE], [TYPE]), "wanted no open job in another space"


@case("L9")
def counts_tell_where_jobs_stand(h: Harness) -> None:
    _one_of_each_state(h)
    h.put(run_at=h.now + SECOND)
    h.put(queue="a", type="x")
    h.put(queue="a", type="w")
    h.put(queue="a", type="x")
    wanted = [
        QueueCounts(queue="a", type="w", ready=1),
        QueueCounts(queue="a", type="x", ready=2),
        QueueCounts(queue=QUEUE, type=TYPE, ready=1, scheduled=1, inflight=1, done=1, dead=1, cancelled=1),
    ]
    equal(h.store.counts(now=h.stamp), wanted, "counts")


@case("L9")
def counts_keep_to_their_queues(h: Harness) -> None:
    for queue in ("a", "b", "c"):
        h.put(queue=queue)
    found = h.store.counts(["c", "a"], now=h.stamp)
    equal([row.queue for row in found], ["a", "c"], "the queues")
    equal(h.store.counts(["unknown"], now=h.stamp), [], "counts of an unknown queue")


@case("L2", needs={Feature.SCHEDULING})
def a_job_counts_as_scheduled_until_it_is_due(h: Harness) -> None:
    h.put(run_at=h.now + 10)
    for moved, wanted in ((9, (0, 1)), (1, (1, 0)), (1, (1, 0))):
        h.advance(moved)
        [row] = h.store.counts(now=h.stamp)
        equal((row.ready, row.scheduled), wanted, "ready and scheduled")


@case("L9", needs={Feature.SCHEDULING})
def a_job_in_backoff_counts_as_scheduled(h: Harness) -> None:
    held = h.held()
    h.settled(Retry(held.lease, delay=SECOND))
    equal(h.store.counts(now=h.stamp), [QueueCounts(queue=QUEUE, type=TYPE, scheduled=1)], "counts")


@case("L9")
def counts_follow_every_move(h: Harness) -> None:
    h.put()
    seen = []
    held = h.take()
    seen.append(h.store.counts(now=h.stamp))
    h.advance(LEASE)
    seen.append(h.store.counts(now=h.stamp))  # expired, but nobody has ended it
    h.reap()
    seen.append(h.store.counts(now=h.stamp))
    h.settled(Fail(h.take().lease, reason="no"))
    seen.append(h.store.counts(now=h.stamp))
    h.requeue(held.job.id)
    h.cancel(held.job.id)
    seen.append(h.store.counts(now=h.stamp))
    h.purge(held.job.id)
    seen.append(h.store.counts(now=h.stamp))
    words = ("inflight", "inflight", "ready", "dead", "cancelled")
    wanted = [[QueueCounts(queue=QUEUE, type=TYPE, **{word: 1})] for word in words]
    equal(seen, [*wanted, []], "counts, move by move")


def _one_of_each_state(h: Harness) -> dict[State, str]:
    done, dead = h.held(), h.held()
    h.settled(Ack(done.lease), Fail(dead.lease, reason="no"))
    running = h.held()
    cancelled = h.put()
    h.cancel(cancelled.id)
    return {
        State.DONE: done.job.id,
        State.DEAD: dead.job.id,
        State.INFLIGHT: running.job.id,
        State.CANCELLED: cancelled.id,
        State.READY: h.put().id,
    }
