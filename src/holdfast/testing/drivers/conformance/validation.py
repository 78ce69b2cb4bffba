"""What is refused at the door: the same bounds in every driver, and nothing stored."""

from __future__ import annotations

from typing import Any

from holdfast.drivers.contract import Feature
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

BAD_NAMES = ("", "a b", "ü", "a/b", "a\n", "x" * 129, None, 7)
BAD_TEXTS = ("", "a\x00b", "a\nb", "\x7f", "\ud800", "x" * 257, "ü" * 129, 7)


def _refused(h: Harness, **fields: Any) -> None:
    good, bad = h.job(), h.job(**fields)
    with raising(InvalidInput, f"enqueue with {fields!r:.80}"):
        h.enqueue(good, bad)
    equal(h.store.get(good.id), None, "the good job of a refused batch")


@case("L9")
def names_that_do_not_fit_are_refused(h: Harness) -> None:
    for field in ("id", "type", "queue"):
        for wrong in BAD_NAMES:
            _refused(h, **{field: wrong})


@case("L9")
def texts_that_do_not_fit_are_refused(h: Harness) -> None:
    for field in ("domain", "name", "idempotency_key"):
        for wrong in BAD_TEXTS:
            _refused(h, **{field: wrong})


@case("L9")
def a_payload_that_is_not_bytes_is_refused(h: Harness) -> None:
    for kind in (str, dict, bytearray, list):
        _refused(h, payload=kind())


@case("L9")
def meta_that_could_not_be_read_back_is_refused(h: Harness) -> None:
    """Stored as it is, such a record would stop every reserve that meets it."""
    for wrong in ([1], "text", None, {1: "a key that is no text"}, {"no JSON": object()}, {"no JSON": {1, 2}}):
        _refused(h, meta=wrong)


@case("L10")
def priorities_other_than_0_to_9_are_refused(h: Harness) -> None:
    for wrong in (-1, 10, True, 1.0, "1", None):
        _refused(h, priority=wrong)


@case("L7")
def fewer_than_one_attempt_is_refused(h: Harness) -> None:
    for wrong in (0, -1, True, None, 2**31):
        _refused(h, max_attempts=wrong)
    _refused(h, max_crashes=0)
    _refused(h, max_attempts=3, attempts=3)
    _refused(h, attempts=-1)


@case("L2")
def instants_and_lengths_out_of_range_are_refused(h: Harness) -> None:
    for wrong in (-1, bounds.MAX_INSTANT + 1, 1.5, "1"):
        _refused(h, run_at=wrong)
        _refused(h, created_at=wrong)
    for wrong in (0, -1, bounds.MAX_DURATION + 1):
        _refused(h, timeout=wrong)


@case("L9")
def only_new_jobs_are_accepted(h: Harness) -> None:
    for state in (State.INFLIGHT, State.DONE, State.DEAD, State.CANCELLED):
        _refused(h, state=state)


@case("L9")
def the_largest_of_everything_is_accepted(h: Harness) -> None:
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
    equal(h.get(job.id), job, "the stored job")


@case("L3")
def queues_that_do_not_fit_are_refused_by_reserve(h: Harness) -> None:
    h.put()
    for wrong in ([], (), QUEUE, [""], ["a b"], [None], [QUEUE, "ü"]):
        with raising(InvalidInput, f"reserve({wrong!r})"):
            h.reserve(queues=wrong)  # type: ignore[arg-type]
    equal(len(h.reserve()), 1, "jobs left to reserve")


@case("L3", needs={Feature.TYPES})
def types_that_do_not_fit_are_refused_by_reserve(h: Harness) -> None:
    for wrong in ([], "work", ["a b"], {""}):
        with raising(InvalidInput, f"types={wrong!r}"):
            h.reserve(types=wrong)


@case("L3")
def limits_that_do_not_fit_are_refused_by_reserve(h: Harness) -> None:
    h.put()
    for wrong in (0, -1, bounds.MAX_BATCH_ITEMS + 1, True, 1.0):
        with raising(InvalidInput, f"limit={wrong!r}"):
            h.reserve(wrong)  # type: ignore[arg-type]
    equal(len(h.reserve(bounds.MAX_BATCH_ITEMS)), 1, "jobs reserved with the largest limit")


@case("L3")
def lease_lengths_that_do_not_fit_are_refused(h: Harness) -> None:
    held = h.held()
    h.put()
    for wrong in (0, -1, bounds.MAX_DURATION + 1, 1.5, None):
        with raising(InvalidInput, f"reserve(lease_for={wrong!r})"):
            h.reserve(lease_for=wrong)  # type: ignore[arg-type]
        with raising(InvalidInput, f"extend(lease_for={wrong!r})"):
            h.extend(held.lease, lease_for=wrong)  # type: ignore[arg-type]
    h.settled(Ack(held.lease))


@case("L3")
def worker_names_that_do_not_fit_are_refused(h: Harness) -> None:
    h.put()
    for wrong in ("a\nb", "x" * 257, None):
        with raising(InvalidInput, f"worker={wrong!r:.20}"):
            h.reserve(worker=wrong)  # type: ignore[arg-type]
    for other in ("", "a\nb", 7):
        with raising(InvalidInput, f"reap(worker={other!r})"):
            h.reap(worker=other)  # type: ignore[arg-type]


@case("L7")
def reaps_that_do_not_fit_are_refused(h: Harness) -> None:
    h.held()
    h.advance(LEASE)
    for limit in (0, -1, bounds.MAX_BATCH_ITEMS + 1):
        with raising(InvalidInput, f"limit={limit}"):
            h.reap(limit=limit)
    for queues in ([], QUEUE, ["a b"]):
        with raising(InvalidInput, f"queues={queues!r}"):
            h.reap(queues)
    equal(h.reap([QUEUE]), 1, "reaped")


@case("L5")
def extends_beyond_the_bound_are_refused(h: Harness) -> None:
    held = h.held()
    with raising(InvalidInput):
        h.extend(*[held.lease] * (bounds.MAX_BATCH_ITEMS + 1))


@case("L9")
def ids_that_do_not_fit_are_refused_by_operators(h: Harness) -> None:
    job = h.put()
    verbs = {"cancel": h.store.cancel, "requeue": h.store.requeue, "purge": h.store.purge}
    for name, verb in verbs.items():
        for wrong in (job.id, ["a b"], [""], [None], [job.id] * (bounds.MAX_BATCH_ITEMS + 1)):
            with raising(InvalidInput, f"{name}({str(wrong)[:20]})"):
                verb(wrong, now=h.stamp)  # type: ignore[arg-type]
    equal(h.state(job.id), State.READY, "the state")
    for look in (h.store.get, h.store.inspect):
        with raising(InvalidInput):
            look("a b")


@case("L13", needs={Feature.LEDGER})
def pages_of_the_ledger_that_do_not_fit_are_refused(h: Harness) -> None:
    for wrong in (0, -1, bounds.MAX_BATCH_ITEMS + 1, True):
        with raising(InvalidInput, f"ledger(limit={wrong})"):
            h.store.ledger(limit=wrong)


@case("L9", needs={Feature.REGISTRY})
def pages_of_the_registry_that_do_not_fit_are_refused(h: Harness) -> None:
    for wrong in (0, -1, bounds.MAX_BATCH_ITEMS + 1, True):
        with raising(InvalidInput, f"scan(limit={wrong})"):
            h.store.scan("kind", limit=wrong)


@case("L9", needs={Feature.REGISTRY})
def registry_calls_that_do_not_fit_are_refused(h: Harness) -> None:
    with raising(InvalidInput, "a kind with a space"):
        h.store.read("a b", ["key"])
    with raising(InvalidInput, "an empty key"):
        h.store.read("kind", [""])
    with raising(InvalidInput, "a prefix with a control character"):
        h.store.scan("kind", prefix="a\x00")
    with raising(InvalidInput, "too many keys"):
        h.store.read("kind", ["key"] * (bounds.MAX_BATCH_ITEMS + 1))


@case("L3", needs={Feature.LIMITS})
def settings_for_names_that_do_not_fit_are_refused(h: Harness) -> None:
    for wrong in BAD_NAMES:
        with raising(InvalidInput, f"settings({wrong!r})"):
            h.store.settings(wrong)  # type: ignore[arg-type]
    with raising(InvalidInput, "a type with a space"):
        h.store.settings(QUEUE, type="a b")


@case("L3")
def waits_that_do_not_fit_are_refused(h: Harness) -> None:
    for queues, timeout in (([], 0), (QUEUE, 0), ([QUEUE], -1), ([QUEUE], 86_401), ([QUEUE], None)):
        with raising(InvalidInput, f"wait({queues!r}, timeout={timeout!r})"):
            h.store.wait(queues, timeout=timeout)  # type: ignore[arg-type]


@case("L9")
def a_record_is_refused_before_anything_is_looked_up(h: Harness) -> None:
    known: JobRecord = h.put()
    with raising(InvalidInput):
        h.enqueue(h.job(id=known.id, priority=10))
