"""Load on a store while faults are injected, and the check that every accepted job ended exactly once."""

import threading
import time
from collections import Counter
from itertools import count

import uuid_utils

import holdfast
from holdfast.clock import SECOND
from holdfast.errors import StoreError
from holdfast.model.job import JobRecord
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack

LEASE = 2 * SECOND
BATCH = 20


def run_under_faults(url, fault, *, jobs, faults, every, threads=3, within=240.0):
    """Produce and consume jobs while ``fault()`` is called ``faults`` times; return the store errors, counted."""
    store = holdfast.connect(url)
    deadline = time.monotonic() + within
    accepted, store_errors, failures = [], Counter(), []
    produced, done, faults_over = threading.Event(), threading.Event(), threading.Event()

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failures.append(error)
            done.set()

    def produce():
        for start in count(0, BATCH):  # at least until the last fault is over
            if start >= jobs and faults_over.is_set():
                break
            batch = [
                JobRecord(
                    id=str(uuid_utils.uuid7()),
                    type="t",
                    queue="q",
                    payload=b"{}",
                    created_at=0,
                    max_crashes=None,
                    max_attempts=1000,
                    domain=f"d{start % 7}" if number % 4 == 0 else None,
                )
                for number in range(BATCH)
            ]
            while True:  # repeats the same batch: jobs that were stored the first time are answered as existing
                assert time.monotonic() < deadline, "producing took too long"
                try:
                    accepted.extend(answer.id for answer in store.enqueue(batch))
                    break
                except StoreError as error:
                    store_errors["enqueue", type(error).__name__] += 1
        produced.set()

    def consume():
        while not done.is_set():
            assert time.monotonic() < deadline, "consuming took too long"
            try:
                reservations = store.reserve(["q"], limit=BATCH, lease_for=LEASE, worker="w")
                if reservations:
                    store.settle([Ack(one.lease) for one in reservations])
                else:
                    store.wait(["q"], timeout=0.1)
                    if produced.is_set() and not any(row.ready + row.inflight for row in store.counts()):
                        done.set()
            except StoreError as error:
                store_errors["consume", type(error).__name__] += 1
                done.wait(0.02)

    running_threads = [threading.Thread(target=guarded, args=(work,)) for work in (produce, *([consume] * threads))]
    for thread in running_threads:
        thread.start()
    for _ in range(faults):
        if not done.wait(every):
            fault()
    faults_over.set()
    for thread in running_threads:
        thread.join()
    assert failures == []
    check_each_ended_once(store, accepted)
    store.close()
    return store_errors


def check_each_ended_once(store, accepted):
    """Assert that every accepted job is done and was acked once under one lease, and that there is no other job."""
    rows, cursor = [], None
    while (page := store.ledger(after=cursor)).items:
        rows += page.items
        cursor = page.cursor
    acked = Counter(row.job_id for row in rows if row.ending is Ending.ACKED)
    assert set(acked) == set(accepted)
    assert set(acked.values()) == {1}
    assert sum(row.done for row in store.counts()) == len(set(accepted))
    assert len({row.fence for row in rows}) == len(rows)
