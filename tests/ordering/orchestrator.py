"""A process, or a thread, that processes the offsets of a domain in whatever order it can get them.

As a program: ``python orchestrator.py URL OWNER COUNT HOLD``, for COUNT offsets per domain. Prints one line for each
acquired offset. If HOLD is not 0, it keeps the lease of its so many-th offset until it is killed.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from holdfast import connect
from holdfast.ordering import (
    Acquired,
    AlreadyAcquired,
    AlreadyFailed,
    AlreadyProcessed,
    Busy,
    Enqueued,
    NotHead,
    TokenMismatchError,
    WorkLease,
)

DOMAINS = ("a", "b", "c")
LEASE = timedelta(seconds=1)
PAUSE_SECONDS = 0.002


def process_all(
    lease: WorkLease, domain: str, offsets: Iterable[int], on_acquired: Callable[[str, int, Acquired], bool]
) -> None:
    """Try until all offsets have ended. ``on_acquired`` returns whether the attempt succeeded."""
    pending = list(offsets)
    while pending:
        match lease.try_acquire(domain, pending[-1]):
            case AlreadyProcessed() | AlreadyFailed():
                pending.pop()
            case Acquired() as acquired:
                finish = lease.succeed if on_acquired(domain, pending[-1], acquired) else lease.fail
                try:
                    finish(domain, acquired.token)
                except TokenMismatchError:  # it took too long, and another owner has the offset now
                    continue
            case AlreadyAcquired(token):  # after a failed attempt, or if the answer was lost
                lease.succeed(domain, token)
            case NotHead(head):
                pending.append(head)
            case Enqueued() | Busy():
                running = lease.state(domain).lease
                if running is not None and running.has_lapsed:
                    pending.append(running.offset)
                time.sleep(PAUSE_SECONDS)
            case answer:
                raise AssertionError(answer)


def main(url: str, owner: str, count: str, hold: str) -> None:
    acquisitions = itertools.count(1)

    def report(domain: str, offset: int, acquired: Acquired) -> bool:
        print("acquired", domain, offset, acquired.fence, flush=True)
        if next(acquisitions) == int(hold):
            print("holding", domain, offset, acquired.fence, flush=True)
            sys.stdin.read()
        return True

    dice = random.Random(owner)
    with connect(url) as store:
        lease = WorkLease(max_retries=1_000_000, store=store, strict=False, owner=owner, lease_for=LEASE)
        for domain in dice.sample(DOMAINS, len(DOMAINS)):
            process_all(lease, domain, dice.sample(range(int(count)), int(count)), report)


if __name__ == "__main__":
    main(*sys.argv[1:])
