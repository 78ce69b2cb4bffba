"""Validation of arguments: every driver has the same bounds, and a refused call stores nothing."""

from __future__ import annotations

from typing import Any, cast

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Cancel, Inspect, Purge, Read, Requeue, Scan, Settings
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

BAD_NAMES = ("", "a b", "ü", "a/b", "a\n", "x" * 129, None, 7)
BAD_TEXTS = ("", "a\x00b", "a\nb", "\x7f", "\ud800", "x" * 257, "ü" * 129, 7)


def _assert_refused(h: Harness, **fields: Any) -> None:
    good, bad = h.job(), h.job(**fields)
    with assert_raises(InvalidInput, f"enqueue with {fields!r:.80}"):
        h.enqueue(good, bad)
    assert_equal(h.store.get(good.id), None, "the valid job of a refused batch")


@case("L9")
def invalid_ids_types_and_queue_names_are_refused(h: Harness) -> None:
    for field in ("id", "type", "queue"):
        for invalid in BAD_NAMES:
            _assert_refused(h, **{field: invalid})


@case("L9")
def invalid_domains_names_and_idempotency_keys_are_refused(h: Harness) -> None:
    for field in ("domain", "name", "idempotency_key"):
        for invalid in BAD_TEXTS:
            _assert_refused(h, **{field: invalid})


@case("L9")
def a_payload_that_is_not_bytes_is_refused(h: Harness) -> None:
    for kind in (str, dict, bytearray, list):
        _assert_refused(h, payload=kind())


@case("L9")
def meta_that_is_not_a_json_object_is_refused(h: Harness) -> None:
    """If such a record were stored, every reserve that returns it would fail."""
    for invalid in ([1], "text", None, {1: "a key that is no text"}, {"no JSON": object()}, {"no JSON": {1, 2}}):
        _assert_refused(h, meta=invalid)


@case("L10")
def priorities_other_than_0_to_9_are_refused(h: Harness) -> None:
    for invalid in (-1, 10, True, 1.0, "1", None):
        _assert_refused(h, priority=invalid)


@case("L7")
def attempt_and_crash_limits_below_one_are_refused(h: Harness) -> None:
    for invalid in (0, -1, True, None, 2**31):
        _assert_refused(h, max_attempts=invalid)
    _assert_refused(h, max_crashes=0)
    _assert_refused(h, max_attempts=3, attempts=3)
    _assert_refused(h, attempts=-1)


@case("L2")
def instants_and_lengths_out_of_range_are_refused(h: Harness) -> None:
    for invalid in (-1, bounds.MAX_INSTANT + 1, 1.5, "1"):
        _assert_refused(h, run_at=invalid)
        _assert_refused(h, created_at=invalid)
    for invalid in (0, -1, bounds.MAX_DURATION + 1):
        _assert_refused(h, timeout=invalid)


@case("L9")
def a_record_in_a_state_other_than_ready_is_refused(h: Harness) -> None:
    for state in (State.INFLIGHT, State.DONE, State.DEAD, State.CANCELLED):
        _assert_refused(h, state=state)


@case("L9", needs={Feature.PRIORITY, Feature.SCHEDULE, Feature.KEY, Feature.DOMAIN})
def the_largest_value_of_every_field_is_accepted(h: Harness) -> None:
    job = h.job(
        id="x" * 128,
        type="t" * 128,
        queue="A-z.0_9:" * 16,
        domain="ü" * 128,
        idempotency_key="k" * 256,
        name="n" * 256,
        priority=9,
        run_at=bounds.MAX_INSTANT,
        created_at=bounds.MAX_INSTANT,
        max_attempts=bounds.MAX_COUNT,
        max_crashes=bounds.MAX_COUNT,
        timeout=bounds.MAX_DURATION,
    )
    h.enqueue(job)
    assert_equal(h.get(job.id), job, "the stored job")


@case("L3")
def reserve_refuses_invalid_queues(h: Harness) -> None:
    h.enqueue_job()
    for invalid in ([], (), QUEUE, [""], ["a b"], [None], [QUEUE, "ü"]):
        with assert_raises(InvalidInput, f"reserve({invalid!r})"):
            h.reserve(queues=invalid)  # type: ignore[arg-type]
    assert_equal(len(h.reserve()), 1, "jobs left to reserve")


@case("L3", needs={Feature.TYPES})
def reserve_refuses_invalid_types(h: Harness) -> None:
    for invalid in ([], "work", ["a b"], {""}):
        with assert_raises(InvalidInput, f"types={invalid!r}"):
            h.reserve(types=invalid)


@case("L3")
def reserve_refuses_invalid_limits(h: Harness) -> None:
    h.enqueue_job()
    for invalid in (0, -1, bounds.MAX_BATCH_ITEMS + 1, True, 1.0):
        with assert_raises(InvalidInput, f"limit={invalid!r}"):
            h.reserve(invalid)  # type: ignore[arg-type]
    assert_equal(len(h.reserve(bounds.MAX_BATCH_ITEMS)), 1, "jobs reserved with the largest limit")


@case("L3", "L7", needs={Feature.NOTES})
def reserve_refuses_invalid_byte_budgets_isolations_and_prefetches(h: Harness) -> None:
    h.enqueue_job()
    invalid_options: list[dict[str, Any]] = [{"max_bytes": value} for value in (0, -1, True, 1.0)]
    invalid_options += [{"isolation": value} for value in ("alone", None, 1)]
    invalid_options += [{"prefetch": value} for value in (None, 1, "yes")]
    for invalid in invalid_options:
        with assert_raises(InvalidInput, f"reserve({invalid})"):
            h.reserve(**invalid)
    assert_equal(len(h.reserve()), 1, "jobs left to reserve")


@case("L7")
def report_outage_refuses_what_is_no_lease(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    for invalid in ("1.0", None, reservation):
        with assert_raises(InvalidInput, f"report_outage({invalid!r})"):
            h.report_outage(reservation.lease, invalid)  # type: ignore[arg-type]
    assert_equal(h.state(reservation.job.id), State.INFLIGHT, "the state")


@case("L3")
def reserve_and_extend_refuse_invalid_lease_lengths(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.enqueue_job()
    for invalid in (0, -1, bounds.MAX_DURATION + 1, 1.5, None):
        with assert_raises(InvalidInput, f"reserve(lease_for={invalid!r})"):
            h.reserve(lease_for=invalid)  # type: ignore[arg-type]
        with assert_raises(InvalidInput, f"extend(lease_for={invalid!r})"):
            h.extend(reservation.lease, lease_for=invalid)  # type: ignore[arg-type]
    h.must_settle(Ack(reservation.lease))


@case("L3")
def reserve_and_reap_refuse_invalid_worker_names(h: Harness) -> None:
    h.enqueue_job()
    for invalid in ("a\nb", "x" * 257, None):
        with assert_raises(InvalidInput, f"worker={invalid!r:.20}"):
            h.reserve(worker=invalid)  # type: ignore[arg-type]
    for other in ("", "a\nb", 7):
        with assert_raises(InvalidInput, f"reap(worker={other!r})"):
            h.reap(worker=other)  # type: ignore[arg-type]


@case("L7")
def reap_refuses_invalid_limits_and_queues(h: Harness) -> None:
    h.reserve_new_job()
    h.advance(LEASE)
    for limit in (0, -1, bounds.MAX_BATCH_ITEMS + 1):
        with assert_raises(InvalidInput, f"limit={limit}"):
            h.reap(limit=limit)
    for queues in ([], QUEUE, ["a b"]):
        with assert_raises(InvalidInput, f"queues={queues!r}"):
            h.reap(queues)
    assert_equal(h.reap([QUEUE]), 1, "reaped")


@case("L5")
def extend_refuses_a_batch_that_is_too_large(h: Harness) -> None:
    reservation = h.reserve_new_job()
    with assert_raises(InvalidInput):
        h.extend(*[reservation.lease] * (bounds.MAX_BATCH_ITEMS + 1))


@case("L9", needs={Feature.JOBS})
def cancel_requeue_purge_get_and_inspect_refuse_invalid_ids(h: Harness) -> None:
    job = h.enqueue_job()
    for request in (Cancel, Requeue, Purge, Inspect):
        for invalid in (job.id, ["a b"], [""], [None], [job.id] * (bounds.MAX_BATCH_ITEMS + 1)):
            with assert_raises(InvalidInput, f"{request.verb}({str(invalid)[:20]})"):
                h.store.do(request(job_ids=cast("list[str]", invalid)))
    assert_equal(h.state(job.id), State.READY, "the state")
    with assert_raises(InvalidInput):
        h.store.get("a b")


@case("L13", needs={Feature.LEDGER})
def ledger_refuses_invalid_page_sizes(h: Harness) -> None:
    for invalid in (0, -1, bounds.MAX_BATCH_ITEMS + 1, True):
        with assert_raises(InvalidInput, f"ledger(limit={invalid})"):
            h.store.ledger(limit=invalid)


@case("L9", needs={Feature.REGISTRY})
def scan_refuses_invalid_page_sizes(h: Harness) -> None:
    for invalid in (0, -1, bounds.MAX_BATCH_ITEMS + 1, True):
        with assert_raises(InvalidInput, f"scan(limit={invalid})"):
            h.store.do(Scan(kind="kind", limit=invalid))


@case("L9", needs={Feature.REGISTRY})
def the_registry_refuses_invalid_kinds_keys_and_prefixes(h: Harness) -> None:
    with assert_raises(InvalidInput, "a kind with a space"):
        h.store.do(Read(kind="a b", keys=["key"]))
    with assert_raises(InvalidInput, "an empty key"):
        h.store.do(Read(kind="kind", keys=[""]))
    with assert_raises(InvalidInput, "a prefix with a control character"):
        h.store.do(Scan(kind="kind", prefix="a\x00"))
    with assert_raises(InvalidInput, "too many keys"):
        h.store.do(Read(kind="kind", keys=["key"] * (bounds.MAX_BATCH_ITEMS + 1)))


@case("L3", needs={Feature.LIMITS})
def settings_refuses_invalid_queue_and_type_names(h: Harness) -> None:
    for invalid in BAD_NAMES:
        with assert_raises(InvalidInput, f"settings({invalid!r})"):
            h.store.do(Settings(queue=invalid))  # type: ignore[arg-type]
    with assert_raises(InvalidInput, "a type with a space"):
        h.store.do(Settings(queue=QUEUE, type="a b"))


@case("L3")
def wait_refuses_invalid_queues_and_timeouts(h: Harness) -> None:
    for queues, timeout in (([], 0), (QUEUE, 0), ([QUEUE], -1), ([QUEUE], 86_401), ([QUEUE], None)):
        with assert_raises(InvalidInput, f"wait({queues!r}, timeout={timeout!r})"):
            h.store.wait(queues, timeout=timeout)  # type: ignore[arg-type]


@case("L9")
def an_invalid_record_is_refused_even_if_its_id_is_known(h: Harness) -> None:
    known: JobRecord = h.enqueue_job()
    with assert_raises(InvalidInput):
        h.enqueue(h.job(id=known.id, priority=10))
