"""Races between processes on one store. Functions that child processes run are at the top level, to be picklable."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from holdfast.connect import connect
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.model.job import JobRecord
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, CaseSkipped, Harness

PROCESSES = {Feature.PROCESSES}
CHILDREN = 3

ChildFunction = Callable[[Store, int, int | None], list[str]]


def _run_in_processes(h: Harness, function: ChildFunction) -> list[list[str]]:
    """Run ``function(store, number, now)`` in several processes at once, each with its own connection."""
    if h.url is None:
        raise CaseSkipped("this harness has no URL that a child process could connect to")
    # Spawned, not forked: a forked child would inherit connections that belong to its parent.
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(CHILDREN)
    with ProcessPoolExecutor(CHILDREN, mp_context=context, initializer=_keep_barrier, initargs=(barrier,)) as pool:
        children = [
            pool.submit(_child, h.url, h.space_name, function, number, h.now_or_none) for number in range(CHILDREN)
        ]
        return [child.result(timeout=120) for child in children]


_barriers: list[object] = []


def _keep_barrier(barrier: object) -> None:
    _barriers.append(barrier)


def _child(url: str, space: str, function: ChildFunction, number: int, now: int | None) -> list[str]:
    store = connect(url, space=space, caller_clock=now is not None)
    try:
        for barrier in _barriers:
            barrier.wait(60)  # type: ignore[attr-defined]
        return function(store, number, now)
    finally:
        store.close()


def _drain(store: Store, number: int, now: int | None) -> list[str]:
    reserved: list[str] = []
    while reservations := store.reserve([QUEUE], limit=3, lease_for=LEASE, worker=f"p{number}", now=now):
        reserved += [f"{reservation.job.id} {reservation.lease.fence}" for reservation in reservations]
        store.settle([Ack(reservation.lease) for reservation in reservations], now=now)
    return reserved


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


def _count(store: Store, number: int, now: int | None) -> list[str]:  # noqa: ARG001 - every child function has the same signature
    done = 0
    while done < 10:
        [entry] = store.do(Read(kind="kind", keys=["counter"], now=now))
        value = 0 if entry is None or entry.value is None else int(entry.value)
        version = 0 if entry is None else entry.version
        change = Change(kind="kind", key="counter", value=b"%d" % (value + 1), version=version)
        done += store.do(Write(changes=[change], now=now))[0] is not None
    return []


@case("L3", "L4", needs=PROCESSES)
def processes_that_drain_one_queue_get_each_job_once(h: Harness) -> None:
    jobs = [h.job() for _ in range(60)]
    h.enqueue(*jobs)
    reserved = [line.split() for answer in _run_in_processes(h, _drain) for line in answer]
    assert_equal(
        Counter(job_id for job_id, _ in reserved), Counter(job.id for job in jobs), "how often each job was reserved"
    )
    assert_equal(len({fence for _, fence in reserved}), len(jobs), "different fences")
    if h.capabilities.has(Feature.LEDGER):
        assert_equal(len(h.ledger()), len(jobs), "rows of the ledger")


@case("L12", needs=PROCESSES | {Feature.KEY})
def processes_that_enqueue_one_key_make_one_job(h: Harness) -> None:
    answers = _run_in_processes(h, _enqueue)
    for key, answers_of_key in enumerate(zip(*answers, strict=True)):
        assert_equal(len({line.split()[0] for line in answers_of_key}), 1, f"different ids for key {key}")
        assert_equal(sum(line.endswith("False") for line in answers_of_key), 1, f"new jobs for key {key}")
    assert_equal(len(h.reserve(100)), 10, "jobs reserved")


@case("L12", needs=PROCESSES | {Feature.REGISTRY})
def processes_that_increment_a_counter_by_compare_and_set_lose_no_update(h: Harness) -> None:
    _run_in_processes(h, _count)
    [entry] = h.store.do(Read(kind="kind", keys=["counter"], now=h.now_or_none))
    assert entry is not None, "wanted the counter written"
    assert_equal(entry.value, b"%d" % (CHILDREN * 10), "the counter")
