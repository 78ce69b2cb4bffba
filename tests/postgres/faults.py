"""Load while a server is disturbed, and the proof afterwards that every job that was accepted ended once."""

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


def under_faults(url, fault, *, jobs, faults, every, threads=3, within=240.0):
    """Produce and consume while ``fault()`` happens ``faults`` times; gives what the store said meanwhile."""
    store = holdfast.connect(url)
    deadline = time.monotonic() + within
    accepted, refused, wrong = [], Counter(), []
    produced, done, disturbed = threading.Event(), threading.Event(), threading.Event()

    def guarded(work):
        try:
            work()
        except BaseException as error:
            wrong.append(error)
            done.set()

    def produce():
        for start in count(0, BATCH):  # until the last fault is over, and then a few more
            if start >= jobs and disturbed.is_set():
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
            while True:  # the same batch again: what was stored the first time is answered as existing
                assert time.monotonic() < deadline, "too slow to produce"
                try:
                    accepted.extend(answer.id for answer in store.enqueue(batch))
                    break
                except StoreError as error:
                    refused["enqueue", type(error).__name__] += 1
        produced.set()

    def consume():
        while not done.is_set():
            assert time.monotonic() < deadline, "too slow to consume"
            try:
                held = store.reserve(["q"], limit=BATCH, lease_for=LEASE, worker="w")
                if held:
                    store.settle([Ack(one.lease) for one in held])
                else:
                    store.wait(["q"], timeout=0.1)
                    if produced.is_set() and not any(row.ready + row.inflight for row in store.counts()):
                        done.set()
            except StoreError as error:
                refused["consume", type(error).__name__] += 1
                done.wait(0.02)

    running = [threading.Thread(target=guarded, args=(work,)) for work in (produce, *([consume] * threads))]
    for thread in running:
        thread.start()
    for _ in range(faults):
        if not done.wait(every):
            fault()
    disturbed.set()
    for thread in running:
        thread.join()
    assert wrong == []
    check(store, accepted)
    store.close()
    return refused


def check(store, accepted):
    """Every accepted job is done, and was acked once under one lease; no other job is there."""
    rows, cursor = [], None
    while (page := store.ledger(after=cursor)).items:
        rows += page.items
        cursor = page.cursor
    acked = Counter(row.job_id for row in rows if row.ending is Ending.ACKED)
    assert set(acked) == set(accepted)
    assert set(acked.values()) == {1}
    assert sum(row.done for row in store.counts()) == len(set(accepted))
    assert len({row.fence for row in rows}) == len(rows)
