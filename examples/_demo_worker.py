"""A worker process of the demo: reserve a batch, run it, settle it.

The demo sends single bytes on stdin (their end means: stop) and hears JSON lines on stdout.
"""

from __future__ import annotations

import json
import os
import select
import sys

from _demo_jobs import LEASE_FOR, QUEUE, attempt

from holdfast import Reservation, connect
from holdfast.drivers.contract import Store

HOLD = b"h"  # say when you hold leases, and do not settle before you hear GO
GO = b"g"
STOP = b""
ENDINGS = {"ack": "acked", "retry": "retried", "fail": "failed"}


def main(url: str, name: str, batch_size: str) -> None:
    store = connect(url)
    hold = False
    while (order := heard()) != STOP:
        hold = hold or order == HOLD
        batch = store.reserve([QUEUE], limit=int(batch_size), lease_for=LEASE_FOR, worker=name)
        if not batch:
            store.wait([QUEUE], timeout=0.05)
            continue
        if hold:
            hold = False
            say(holding=len(batch))
            if os.read(sys.stdin.fileno(), 1) == STOP:
                break
        run(store, batch)
    store.close()


def run(store: Store, batch: list[Reservation]) -> None:
    currencies = known_currencies(store) if any(one.job.type == "invoice.issue" for one in batch) else []
    settlements = [attempt(reservation, currencies) for reservation in batch]
    answers = store.settle(settlements)
    settled: list[tuple[str, int, str]] = []
    refused: list[tuple[str, int, str]] = []
    for settlement, answer in zip(settlements, answers, strict=True):
        lease = settlement.lease
        if answer is None:
            settled.append((lease.job_id, lease.fence, ENDINGS[settlement.verb]))
        else:
            refused.append((lease.job_id, lease.fence, f"{type(answer).__name__}: {answer}"))
    say(settled=settled, refused=refused)


def known_currencies(store: Store) -> list[str]:
    """From a row of the registry: settings that all workers share, and that an operator can change."""
    [entry] = store.read("shop", ["currencies"])
    return [] if entry is None or entry.value is None else entry.value.decode().split()


def heard() -> bytes | None:
    """What the demo has sent since the last look; None if nothing."""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return os.read(sys.stdin.fileno(), 1) if ready else None


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
