"""A producer or a consumer in its own process: ``python process_roles.py ROLE URL ...``.

Every printed line is an answer of the store, flushed at once, so that the test knows each answer also after a kill.
"""

from __future__ import annotations

import os
import random
import sys

import uuid_utils

import holdfast
import holdfast.driver
from holdfast.clock import SECOND
from holdfast.drivers.store import Store
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement

QUEUES = ("a", "b", "c")
LEASE_FOR = 2 * SECOND


def report(*words: object) -> None:
    print(*words, flush=True)


def produce(store: Store, count: int, name: str) -> None:
    """Enqueue jobs in batches of random sizes; report every id once the store has accepted it."""
    dice = random.Random(name)
    enqueued = 0
    while enqueued < count:
        batch = [
            JobRecord(
                id=str(uuid_utils.uuid7()),
                type=dice.choice(("t", "u")),
                queue=dice.choice(QUEUES),
                payload=b"{}",
                priority=dice.randrange(3),
                created_at=0,
                max_crashes=None,
                max_attempts=1000,
                domain=dice.choice((None, None, None, f"d{dice.randrange(20)}")),
            )
            for _ in range(min(dice.randrange(1, 40), count - enqueued))
        ]
        for answer in store.enqueue(batch):
            report("accepted", answer.id)
        enqueued += len(batch)


def consume(store: Store, name: str) -> None:
    """Reserve and settle, mostly by acks, until every queue is empty; report every job that ended."""
    dice = random.Random(name)
    while True:
        reserved = store.reserve(QUEUES, limit=dice.randrange(1, 50), lease_for=LEASE_FOR, worker=name)
        if not reserved:
            if not sum(count.ready + count.scheduled + count.inflight for count in store.counts()):
                return
            store.wait(QUEUES, timeout=0.05)
            continue
        leases = [reservation.lease for reservation in reserved]
        extended = store.extend(leases, lease_for=LEASE_FOR)
        settlements = [_settlement(dice, lease) for lease in extended if isinstance(lease, holdfast.driver.Lease)]
        for settlement, refusal in zip(settlements, store.settle(settlements), strict=True):
            if refusal is None and isinstance(settlement, Ack | Fail):
                report("ended", settlement.lease.job_id, settlement.lease.fence)


def produce_offsets(store: Store, domains: int, offsets: int, seed: int) -> None:
    """Enqueue every offset of every domain in a random order; report those that this process has stored."""
    dice = random.Random(seed)
    places = [(f"d{domain}", offset) for domain in range(domains) for offset in range(offsets)]
    dice.shuffle(places)
    while places:
        batch = [places.pop() for _ in range(min(dice.randrange(1, 12), len(places)))]
        records = [
            JobRecord(
                id=str(uuid_utils.uuid7()),
                type="t",
                queue="q",
                payload=b"{}",
                created_at=0,
                max_crashes=None,
                max_attempts=1000,
                domain=domain,
                offset=offset,
            )
            for domain, offset in batch
        ]
        for place, answer in zip(batch, store.enqueue(records), strict=True):
            report("past" if answer.past else "existed" if answer.existed else "stored", *place)


def consume_offsets(store: Store, domains: int, offsets: int, seed: int) -> None:
    """Reserve, and ack or retry, until every offset is done; report the offsets that this process has acked."""
    dice = random.Random(seed)
    while sum(count.done for count in store.counts()) < domains * offsets:
        reserved = store.reserve(["q"], limit=dice.randrange(1, 10), lease_for=LEASE_FOR)
        settlements = [Ack(one.lease) if dice.randrange(10) else Retry(one.lease, error="again") for one in reserved]
        for one, settlement, refusal in zip(reserved, settlements, store.settle(settlements), strict=True):
            if refusal is None and isinstance(settlement, Ack):
                report("acked", one.job.domain, one.job.offset)
        if not reserved:
            store.wait(["q"], timeout=0.05)


def _settlement(dice: random.Random, lease: holdfast.driver.Lease) -> Settlement:
    match dice.randrange(20):
        case 0:
            return Retry(lease, delay=dice.randrange(1000), error="again")
        case 1:
            return Release(lease)
        case 2:
            return Fail(lease, reason="unlucky")
        case _:
            return Ack(lease)


def main() -> None:
    role, url, *rest = sys.argv[1:]
    store = holdfast.connect(url)
    match role:
        case "produce":
            produce(store, int(rest[0]), f"producer-{os.getpid()}")
        case "produce_offsets":
            produce_offsets(store, *map(int, rest))
        case "consume_offsets":
            consume_offsets(store, *map(int, rest))
        case _:
            consume(store, f"consumer-{os.getpid()}")
    store.close()


if __name__ == "__main__":
    main()
