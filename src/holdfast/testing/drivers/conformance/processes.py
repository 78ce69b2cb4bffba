"""Races between real processes over one store. What the children run stands here, at the top level, to be imported."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from holdfast.connect import connect
from holdfast.drivers.contract import Feature, Store
from holdfast.model.job import JobRecord
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, CaseSkipped, Harness

PROCESSES = {Feature.PROCESSES}
CHILDREN = 3

Act = Callable[[Store, int, int | None], list[str]]


def _crowd(h: Harness, act: Act) -> list[list[str]]:
    """Run ``act(store, number, now)`` in several processes at once, each with a connection of its own."""
    if h.url is None:
        raise CaseSkipped("this harness has no URL that a child process could connect to")
    # Spawned, not forked: a forked child would inherit connections that belong to its parent.
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(CHILDREN)
    with ProcessPoolExecutor(CHILDREN, mp_context=context, initializer=_arrive, initargs=(gate,)) as pool:
        children = [pool.submit(_child, h.url, h.space_name, act, number, h.now_or_none) for number in range(CHILDREN)]
        return [child.result(timeout=120) for child in children]


_gate: list[object] = []


def _arrive(gate: object) -> None:
    _gate.append(gate)


def _child(url: str, space: str, act: Act, number: int, now: int | None) -> list[str]:
    store = connect(url, space=space, caller_clock=now is not None)
    try:
        for gate in _gate:
            gate.wait(60)  # type: ignore[attr-defined]
        return act(store, number, now)
    finally:
        store.close()


def _drain(store: Store, number: int, now: int | None) -> list[str]:
    taken: list[str] = []
    while reservations := store.reserve([QUEUE], limit=3, lease_for=LEASE, worker=f"p{number}", now=now):
        taken += [f"{reservation.job.id} {reservation.lease.fence}" for reservation in reservations]
        store.settle([Ack(reservation.lease) for reservation in reservations], now=now)
    return taken


def _enqueue(store: Store, number: int, now: int | None) -> list[str]:
    answers = []
    for key in range(10):
        job = JobRecord(
            id=f"p{number}-{key}",
            type="work",
            queue=QUEUE,
            payload=b"{}",
            created_at=1,
            idempotency_key=f"k{key}",
        )
        [answer] = store.enqueue([job], now=now)
        answers.append(f"{answer.id} {answer.existed}")
    return answers


def _count(store: Store, number: int, now: int | None) -> list[str]:  # noqa: ARG001 - one shape for all acts
    done = 0
    while done < 10:
        [entry] = store.read("kind", ["counter"], now=now)
        value = 0 if entry is None or entry.value is None else int(entry.value)
        version = 0 if entry is None else entry.version
        change = Change(kind="kind", key="counter", value=b"%d" % (value + 1), version=version)
        done += store.write([change], now=now)[0] is not None
    return []


@case("L3", "L4", needs=PROCESSES)
def processes_that_drain_one_queue_get_each_job_once(h: Harness) -> None:
    jobs = [h.job() for _ in range(60)]
    h.enqueue(*jobs)
    taken = [line.split() for answer in _crowd(h, _drain) for line in answer]
    assert_equal(
        Counter(job_id for job_id, _ in taken), Counter(job.id for job in jobs), "how often each job was taken"
    )
    assert_equal(len({fence for _, fence in taken}), len(jobs), "different fences")
    if h.capabilities.has(Feature.LEDGER):
        assert_equal(len(h.ledger()), len(jobs), "rows of the ledger")


@case("L12", needs=PROCESSES | {Feature.IDEMPOTENCY})
def processes_that_enqueue_one_key_make_one_job(h: Harness) -> None:
    answers = _crowd(h, _enqueue)
    for key, told in enumerate(zip(*answers, strict=True)):
        assert_equal(len({line.split()[0] for line in told}), 1, f"different ids told for key {key}")
        assert_equal(sum(line.endswith("False") for line in told), 1, f"new jobs for key {key}")
    assert_equal(len(h.reserve(100)), 10, "jobs to run")


@case("L12", needs=PROCESSES | {Feature.REGISTRY})
def processes_that_increment_a_counter_by_compare_and_set_lose_no_update(h: Harness) -> None:
    _crowd(h, _count)
    [entry] = h.store.read("kind", ["counter"], now=h.now_or_none)
    assert entry is not None, "wanted the counter written"
    assert_equal(entry.value, b"%d" % (CHILDREN * 10), "the counter")
