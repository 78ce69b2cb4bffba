"""Whose time it is (L1, L2)."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.drivers.contract import Feature, QueueSettings, Store
from holdfast.errors import CallerClockRefused, InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness


def _with_now(store: Store, now: int) -> dict[str, Callable[[], object]]:
    """Every call that takes ``now``, none of them wrong in any other way."""
    return {
        "enqueue": lambda: store.enqueue([], now=now),
        "reserve": lambda: store.reserve([QUEUE], limit=1, lease_for=LEASE, now=now),
        "extend": lambda: store.extend([], lease_for=LEASE, now=now),
        "settle": lambda: store.settle([], now=now),
        "reap": lambda: store.reap(now=now),
        "counts": lambda: store.counts(now=now),
        "requeue": lambda: store.requeue(["unknown"], now=now),
        "cancel": lambda: store.cancel(["unknown"], now=now),
        "purge": lambda: store.purge(["unknown"], now=now),
        "trim": lambda: store.trim(now=now),
    }


def _registry_with_now(store: Store, now: int) -> dict[str, Callable[[], object]]:
    return {
        "read": lambda: store.read("kind", ["key"], now=now),
        "write": lambda: store.write([Change(kind="kind", key="key", value=b"1")], now=now),
        "scan": lambda: store.scan("kind", now=now),
    }


@case("L1")
def every_verb_refuses_now_unless_the_store_was_opened_for_it(h: Harness) -> None:
    store = h.wall()
    for verb, call in _with_now(store, 1).items():
        with raising(CallerClockRefused, verb):
            call()


@case("L1", needs={Feature.REGISTRY})
def the_registry_refuses_now_unless_the_store_was_opened_for_it(h: Harness) -> None:
    store = h.wall()
    for verb, call in _registry_with_now(store, 1).items():
        with raising(CallerClockRefused, verb):
            call()
    equal(store.read("kind", ["key"]), [None], "what a refused write left")


@case("L1")
def a_refused_now_stores_nothing(h: Harness) -> None:
    store, job = h.wall(), h.job()
    with raising(CallerClockRefused):
        store.enqueue([job], now=1)
    equal(store.get(job.id), None, "the job of a refused enqueue")


@case("L1")
def a_refused_now_reaps_nothing(h: Harness) -> None:
    """A worker whose clock is far ahead must not be able to take what others hold."""
    store, job = h.wall(), h.job()
    store.enqueue([job])
    [held] = store.reserve([QUEUE], limit=1, lease_for=LEASE)
    with raising(CallerClockRefused):
        store.reserve([QUEUE], limit=1, lease_for=LEASE, now=bounds.MAX_INSTANT)
    equal(store.reserve([QUEUE], limit=1, lease_for=LEASE), [], "what a second reserve got")
    found = store.inspect(job.id)
    assert found is not None
    equal(found.fence, held.lease.fence, "the fence of the lease")


@case("L1")
def without_now_the_stores_own_clock_moves_on(h: Harness) -> None:
    store = h.wall()
    store.enqueue([h.job(max_crashes=None)])
    [first] = store.reserve([QUEUE], limit=1, lease_for=1)
    # A lease of a microsecond is over by the time another call arrives.
    [second] = store.reserve([QUEUE], limit=1, lease_for=LEASE)
    assert second.lease.fence > first.lease.fence, "wanted the expired lease to be replaced"
    [longer] = store.extend([second.lease], lease_for=2 * LEASE)
    assert not isinstance(longer, Exception), f"wanted the lease extended, got {longer!r}"
    assert longer.expires_at >= second.lease.expires_at + LEASE, "wanted an extend to reckon from a later instant"


@case("L1", needs={Feature.CALLER_CLOCK})
def now_must_be_an_instant(h: Harness) -> None:
    for wrong in (-1, bounds.MAX_INSTANT + 1, True, 1.5, "1"):
        with raising(InvalidInput, f"now={wrong!r}"):
            h.store.enqueue([], now=wrong)  # type: ignore[arg-type]


@case("L1", needs={Feature.CALLER_CLOCK})
def the_callers_now_is_taken_to_the_microsecond(h: Harness) -> None:
    h.advance(7)
    held = h.held(lease_for=11)
    equal(held.lease.expires_at, h.now + 11, "expires_at")
    equal(h.inspect(held.job.id).reserved_at, h.now, "reserved_at")


@case("L2")
def a_lease_lasts_until_the_microsecond_before_its_end(h: Harness) -> None:
    held = h.held()
    h.advance_to(held.lease.expires_at - 1)
    equal(h.reap(), 0, "reaped before the end")
    equal(h.reserve(), [], "reserved before the end")
    h.extended(held.lease)


@case("L2")
def a_lease_is_over_in_the_microsecond_of_its_end(h: Harness) -> None:
    held = h.held()
    h.advance_to(held.lease.expires_at)
    equal(h.reap(), 1, "reaped at the end")


@case("L2")
def a_lease_is_over_a_microsecond_after_its_end(h: Harness) -> None:
    held = h.held()
    h.advance_to(held.lease.expires_at + 1)
    equal(h.reap(), 1, "reaped after the end")


@case("L2")
def a_job_is_due_in_the_microsecond_of_its_run_at(h: Harness) -> None:
    for offset, wanted in ((-1, 0), (0, 1), (1, 1)):
        run_at = h.now + 1000
        job = h.put(run_at=run_at, queue=f"at{offset}")
        h.advance_to(run_at + offset)
        equal(len(h.reserve(queues=[job.queue])), wanted, f"jobs reserved at run_at {offset:+} µs")


@case("L2", needs={Feature.LIMITS})
def a_pause_is_over_in_the_microsecond_of_its_end(h: Harness) -> None:
    until = h.now + 1000
    h.store.configure(QUEUE, QueueSettings(paused_until=until))
    h.put()
    h.advance_to(until - 1)
    equal(h.reserve(), [], "reserved a microsecond before the pause ends")
    h.advance_to(until)
    equal(len(h.reserve()), 1, "jobs reserved when the pause ends")
