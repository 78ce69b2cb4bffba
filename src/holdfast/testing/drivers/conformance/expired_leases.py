"""Tell which expired leases the calls of a store object have ended."""

from __future__ import annotations

from holdfast.drivers.capabilities import Feature
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, Harness


@case("L13", needs={Feature.LEDGER})
def the_leases_that_a_reserve_ended_are_told_once_with_their_ledger_rows(h: Harness) -> None:
    first, second = h.reserve_new_job(worker="gone"), h.reserve_new_job(worker="gone", max_attempts=1)
    h.advance(LEASE)
    assert_equal(h.store.take_expired(), [], "expired leases before the reserve")
    assert_equal(h.reserve_one().job.id, first.job.id, "the job that is leased again")
    expired = h.store.take_expired()
    assert_equal(expired, h.ledger(), "the rows of the ledger")
    assert_equal([row.job_id for row in expired], [first.job.id, second.job.id], "the jobs")
    assert_equal([row.state for row in expired], [State.READY, State.DEAD], "the states after")
    assert_equal(h.store.take_expired(), [], "expired leases that are told again")


@case("L13", needs={Feature.LEDGER})
def the_leases_that_a_reserve_without_jobs_ended_are_told(h: Harness) -> None:
    dead = h.reserve_new_job(max_attempts=1)
    h.advance(LEASE)
    assert_equal(h.reserve(), [], "the answer")
    assert_equal([row.job_id for row in h.store.take_expired()], [dead.job.id], "the jobs")


@case("L13", needs={Feature.LEDGER, Feature.JOBS})
def the_leases_of_several_calls_are_told_in_their_order(h: Harness) -> None:
    outage, cancelled = h.reserve_new_job(queue="a"), h.reserve_new_job(queue="b")
    h.cancel(cancelled.job.id)
    of_dead = h.reserve_new_job(queue="c", worker="dead")
    h.reap(worker="dead")
    h.advance(LEASE)
    assert_equal(h.report_outage(outage.lease), [True], "the answer")
    h.reap(["b"])
    expired = h.store.take_expired()
    assert_equal([row.job_id for row in expired], [one.job.id for one in (of_dead, outage, cancelled)], "the jobs")
    assert_equal(expired[2].state, State.CANCELLED, "the state of the cancelled job")


@case("L13", needs={Feature.LEDGER})
def leases_that_were_settled_or_ended_in_another_space_are_not_told(h: Harness) -> None:
    h.must_settle(Ack(h.reserve_new_job().lease), Retry(h.reserve_new_job(queue="again").lease))
    h.reserve_new_job(queue="valid")
    assert_equal(h.reap(), 0, "reaped")
    other = h.open_other_space()
    other.enqueue([h.job()], now=h.now_or_none)
    other.reserve(["q"], limit=1, lease_for=1, now=h.now_or_none)
    h.advance(1)
    assert_equal(other.reap(now=h.now_or_none), 1, "reaped in the other space")
    assert_equal(h.store.take_expired(), [], "expired leases of this space")
    assert_equal(len(other.take_expired()), 1, "expired leases of the other space")
