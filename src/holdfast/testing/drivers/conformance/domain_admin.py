"""Listing domains, and forgetting what they remember (L9, L11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Domains, ForgetDomain, Resume
from holdfast.errors import InvalidInput
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction
from holdfast.model.job import State
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.domain_calls import ask, end_offsets, enqueue_at, job_at, run_all
from holdfast.testing.drivers.harness import QUEUE, Harness

OFFSETS = {Feature.DOMAIN, Feature.OFFSET}
ORDERED = OFFSETS | {Feature.LIMITS, Feature.DOMAINS, Feature.OFFSET, Feature.SCHEDULE}


def _domains(h: Harness, queue: str | None = None, **options: Any) -> list[DomainInfo]:
    return h.store.do(Domains(queue=queue, now=h.now_or_none, **options)).items


def _only_domain(h: Harness) -> DomainInfo:
    domains = _domains(h)
    assert_equal(len(domains), 1, "the domains")
    return domains[0]


def _names(h: Harness, queue: str | None = None, **options: Any) -> list[str]:
    return [info.domain for info in _domains(h, queue, **options)]


def _fill(h: Harness) -> dict[DomainStatus, DomainInfo]:
    """Make one domain of each status; return them as they must be listed, in order."""
    h.store.do(
        Configure(
            queue=QUEUE, settings=QueueSettings(gaps=Gaps.WAIT, on_exhausted=OnExhausted.HALT, gap_report_after=SECOND)
        )
    )
    halted_at = h.now
    halting = enqueue_at(h, 0, domain="halted")[0]
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    behind = enqueue_at(h, 7, domain="halted")[0]
    retried = enqueue_at(h, 0, domain="backoff")[0]
    h.must_settle(Retry(h.reserve_one().lease, delay=60 * SECOND))
    waiting = enqueue_at(h, 5, 6, domain="waiting")[0]
    running = enqueue_at(h, 0, 1, domain="running")[0]
    assert_equal(h.reserve_ids(9), [running], "reserved")
    waiting_since = h.now
    opened = enqueue_at(h, None, domain="open")[0]
    h.advance(SECOND)
    infos = [
        DomainInfo(queue=QUEUE, domain="backoff", status=DomainStatus.BACKOFF, position=0, open=1, head_id=retried),
        DomainInfo(queue=QUEUE, domain="halted", status=DomainStatus.HALTED, position=1, open=1, head_id=behind),
        DomainInfo(queue=QUEUE, domain="open", status=DomainStatus.OPEN, position=0, open=1, head_id=opened),
        DomainInfo(queue=QUEUE, domain="running", status=DomainStatus.RUNNING, position=0, open=2, head_id=running),
        DomainInfo(queue=QUEUE, domain="waiting", status=DomainStatus.WAITING, position=0, open=2, head_id=waiting),
    ]
    details: dict[DomainStatus, dict[str, Any]] = {
        DomainStatus.BACKOFF: {"head_offset": 0},
        DomainStatus.HALTED: {"head_offset": 7, "halted_by": halting, "halted_at": halted_at},
        DomainStatus.OPEN: {},
        DomainStatus.RUNNING: {"head_offset": 0},
        DomainStatus.WAITING: {
            "head_offset": 5,
            "waits_for": 0,
            "waiting_since": waiting_since,
            "is_overdue": True,
        },
    }
    return {info.status: replace(info, **details[info.status]) for info in infos}


@case("L11", needs=ORDERED)
def domains_are_listed_in_order_with_their_status(h: Harness) -> None:
    wanted = _fill(h)
    assert_equal(_domains(h), [*wanted.values()], "the domains")


@case("L11", needs=ORDERED)
def domains_are_listed_by_status(h: Harness) -> None:
    wanted = _fill(h)
    for status in DomainStatus:
        assert_equal(_domains(h, status=status), [wanted[status]], f"the domains that are {status}")


@case("L11", needs=OFFSETS | {Feature.DOMAINS})
def domains_are_listed_by_queue_and_name(h: Harness) -> None:
    for queue, domain in (("b", "x"), ("a", "y"), ("a", "x"), ("a", "xy")):
        h.enqueue_job(queue=queue, domain=domain)
    places = [(info.queue, info.domain) for info in _domains(h)]
    assert_equal(places, [("a", "x"), ("a", "xy"), ("a", "y"), ("b", "x")], "all domains")
    assert_equal(_names(h, "a"), ["x", "xy", "y"], "those of a queue")
    assert_equal([info.queue for info in _domains(h, name="x")], ["a", "b"], "the queues of a name")
    assert_equal(_names(h, "b", name="y"), [], "a name that the queue does not have")


@case("L11", needs=OFFSETS | {Feature.DOMAINS})
def domains_are_listed_page_by_page(h: Harness) -> None:
    names = ['"', "a", "a,b", "b", "\u00e9", "\U0001f40c"]
    for name in names:
        h.enqueue_job(domain=name)
    h.enqueue_job()
    listed: list[str] = []
    cursor: str | None = None
    for _ in range(10):
        page = h.store.do(Domains(limit=2, after=cursor, now=h.now_or_none))
        assert len(page) <= 2, f"wanted at most 2 domains, got {len(page)}"
        listed += [info.domain for info in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert_equal((listed, cursor), (names, None), "the domains, in the order of their names")


@case("L11", needs=OFFSETS | {Feature.DOMAINS})
def a_cursor_of_domains_must_come_from_domains(h: Harness) -> None:
    with assert_raises(InvalidInput):
        h.store.do(Domains(after="elsewhere", now=h.now_or_none))


@case("L11", needs=OFFSETS | {Feature.DOMAINS})
def a_domain_without_open_jobs_is_listed_only_by_its_queue_and_name(h: Harness) -> None:
    end_offsets(h, 0, 1, 4)
    h.enqueue_job()
    assert_equal(_domains(h), [], "all domains")
    wanted = DomainInfo(queue=QUEUE, domain="d", status=DomainStatus.OPEN, position=2, open=0)
    assert_equal(_domains(h, QUEUE, name="d"), [wanted], "the domain")
    assert_equal(_domains(h, QUEUE, name="unknown"), [], "a domain that never was")


@case("L11", needs=OFFSETS | {Feature.DOMAINS})
def a_domain_of_arrivals_is_gone_when_its_jobs_have_ended(h: Harness) -> None:
    h.enqueue_job(domain="d")
    assert_equal([info.open for info in _domains(h)], [1], "open jobs")
    h.must_settle(Ack(h.reserve_one().lease))
    assert_equal(_domains(h, QUEUE, name="d"), [], "the domain")


@case("L11", needs=OFFSETS | {Feature.DOMAINS})
def the_head_of_a_running_domain_is_the_job_in_flight(h: Harness) -> None:
    enqueue_at(h, 5)
    running = h.reserve_one()
    enqueue_at(h, 3)
    info = _only_domain(h)
    assert_equal((info.head_id, info.head_offset, info.open), (running.job.id, 5, 2), "the head")


@case("L11", needs=ORDERED)
def a_halted_domain_without_open_jobs_is_listed(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(on_exhausted=OnExhausted.HALT)))
    dead = h.reserve_new_job(domain="d")
    h.must_settle(Fail(dead.lease, reason="no"))
    info = _only_domain(h)
    assert_equal((info.status, info.halted_by, info.open), (DomainStatus.HALTED, dead.job.id, 0), "the domain")
    assert_equal((info.head_id, info.head_offset), (None, None), "the head")


@case("L11", needs=OFFSETS | {Feature.DOMAINS})
def a_domain_with_open_jobs_is_not_forgotten(h: Harness) -> None:
    end_offsets(h, 1)
    enqueue_at(h, 2)
    assert not h.store.do(ForgetDomain(queue=QUEUE, domain="d")), "wanted a domain with a ready job to stay"
    running = h.reserve_one()
    assert not h.store.do(ForgetDomain(queue=QUEUE, domain="d")), "wanted a domain with a running job to stay"
    assert ask(h, 1).past, "wanted the offset to stay ended"
    h.must_settle(Ack(running.lease))
    assert h.store.do(ForgetDomain(queue=QUEUE, domain="d")), "wanted the domain forgotten"
    assert not h.store.do(ForgetDomain(queue=QUEUE, domain="d")), "wanted nothing more to forget"
    assert not h.store.do(ForgetDomain(queue=QUEUE, domain="unknown")), "wanted nothing to forget"


@case("L11", needs=OFFSETS | {Feature.DOMAINS})
def a_forgotten_offset_is_new(h: Harness) -> None:
    end_offsets(h, 1, 2)
    end = job_at(h, 1, domain="e")
    h.enqueue(end)
    run_all(h)
    assert h.store.do(ForgetDomain(queue=QUEUE, domain="d")), "wanted the domain forgotten"
    enqueue_at(h, 1)
    assert_equal(run_all(h), [1], "what ran again")
    assert ask(h, 1, domain="e").past, "wanted the other domain unchanged"
    assert not ask(h, 2).existed, "wanted the other offset to be new"


@case("L11", needs=ORDERED)
def forgetting_a_domain_ends_its_halt_and_moves_its_start_back(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(gaps=Gaps.WAIT, on_exhausted=OnExhausted.HALT)))
    assert h.store.do(Resume(queue=QUEUE, domain="d", position=5, now=h.now_or_none)), "wanted the position moved"
    dead = enqueue_at(h, 5)[0]
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    assert h.store.do(ForgetDomain(queue=QUEUE, domain="d")), "wanted the domain forgotten"
    assert not h.store.do(Resume(queue=QUEUE, domain="d", action=ResumeAction.RETRY, now=h.now_or_none)), (
        "wanted nothing to resume"
    )
    assert_equal(h.state(dead), State.DEAD, "the state of the dead job")
    enqueue_at(h, 5, 0)
    assert_equal(run_all(h), [0], "what runs before the gap")


@case("L11", "L9", needs=OFFSETS | {Feature.JOBS, Feature.DOMAINS})
def a_job_whose_offset_is_open_again_is_not_requeued(h: Harness) -> None:
    first = enqueue_at(h, 5)[0]
    h.cancel(first)
    assert h.store.do(ForgetDomain(queue=QUEUE, domain="d")), "wanted the domain forgotten"
    second = enqueue_at(h, 5)[0]
    assert_equal(h.requeue(first), [False], "requeued while another job has the offset")
    assert_equal(h.state(first), State.CANCELLED, "the state of the first job")
    h.cancel(second)
    assert_equal(h.requeue(first, second), [True, False], "both requeued in one call")
    assert_equal(h.reserve_ids(9), [first], "reserved")


@case("L11", needs=OFFSETS | {Feature.SPACES, Feature.DOMAINS})
def domains_belong_to_their_space(h: Harness) -> None:
    end_offsets(h, 1)
    enqueue_at(h, 2, domain="e")
    other = h.open_other_space()
    assert_equal(other.do(Domains(now=h.now_or_none)).items, [], "the domains of another space")
    assert not other.do(ForgetDomain(queue=QUEUE, domain="d")), "wanted nothing to forget in another space"
    assert ask(h, 1).past, "wanted the offset to stay ended"
