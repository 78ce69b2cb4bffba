"""The jobs of the demo: a shop's busy minute, and how a worker runs each of them."""

from __future__ import annotations

import random
import time
from collections.abc import Container, Sequence
from datetime import timedelta

from holdfast import JobRequest, Reservation
from holdfast.clock import MILLISECOND
from holdfast.model.settlement import Ack, Fail, Retry, Settlement
from holdfast.wire.records import to_job

QUEUE = "shop"
LEASE_FOR = 1_500 * MILLISECOND  # short, so that lost workers are noticed while you watch
ONE_JOB = 0.0003  # seconds a job takes: what a fast service would need to answer
MOVES_PER_SHELF = 25

# type: (its share of all jobs, what is special about it); the first one takes what the others leave
KINDS = {
    "receipt.send": (None, "plain"),
    "alert.push": (0.05, "priority 9, sent last"),
    "report.build": (0.05, "scheduled for later"),
    "stock.move": (0.08, "in order, shelf by shelf"),
    "payment.take": (0.05, "sent twice, same key"),
    "gateway.call": (0.05, "fails twice, then works"),
    "invoice.issue": (0.02, "cannot succeed"),
}
UNKNOWN_CURRENCY = "unknown currency XTS"
NO_LINES = "invoice has no lines"


def requests(count: int, seed: int) -> list[JobRequest]:
    """About ``count`` jobs of all kinds, mixed; the alerts come last and should still run first."""
    random_ = random.Random(seed)
    shares = {type: max(2, int(count * share)) for type, (share, _) in KINDS.items() if share is not None}
    shares["receipt.send"] = max(0, count - sum(shares.values()))
    mixed = [type for type, number in shares.items() if type != "alert.push" for _ in range(number)]
    random_.shuffle(mixed)
    shelves = 1 + shares["stock.move"] // MOVES_PER_SHELF
    return [
        _request(type, number, shelves, random_)
        for number, type in enumerate(mixed + ["alert.push"] * shares["alert.push"])
    ]


def _request(type: str, number: int, shelves: int, random_: random.Random) -> JobRequest:
    payload: dict[str, object] = {"number": number}
    match type:
        case "alert.push":
            return JobRequest(type=type, queue=QUEUE, payload=payload, priority=9)
        case "report.build":
            delay = timedelta(seconds=random_.uniform(0.5, 2.5))
            return JobRequest(type=type, queue=QUEUE, payload=payload, delay=delay, priority=5)
        case "stock.move":
            payload["jams"] = random_.random() < 0.05
            shelf = f"shelf-{random_.randrange(shelves)}"
            return JobRequest(type=type, queue=QUEUE, payload=payload, domain=shelf, priority=5)
        case "payment.take":
            return JobRequest(type=type, queue=QUEUE, payload=payload, idempotency_key=f"payment-{number}")
        case "invoice.issue":
            payload |= random_.choice([{"currency": "EUR", "lines": 0}, {"currency": "XTS", "lines": 3}])
    return JobRequest(type=type, queue=QUEUE, payload=payload)


def attempt(reservation: Reservation, currencies: Container[str]) -> Settlement:
    """Run one job once; how it went is the settlement that ends its lease."""
    job, lease = to_job(reservation), reservation.lease
    time.sleep(ONE_JOB)
    match job.type, job.payload:
        case "gateway.call", _ if job.attempt <= 2:
            return Retry(lease, delay=150 * MILLISECOND, error="the gateway answered 503")
        case "stock.move", {"jams": True} if job.attempt == 1:
            return Retry(lease, delay=50 * MILLISECOND, error="the lift is stuck")
        case "invoice.issue", {"currency": str(currency)} if currency not in currencies:
            return Fail(lease, reason=UNKNOWN_CURRENCY, error="wanted a currency the shop knows, got XTS")
        case "invoice.issue", {"lines": 0}:
            return Fail(lease, reason=NO_LINES, error="wanted at least one line, got none")
    return Ack(lease)


def with_keys(asked: Sequence[JobRequest]) -> list[int]:
    """The places of the requests that carry an idempotency key, and so may safely be sent again."""
    return [place for place, request in enumerate(asked) if request.idempotency_key is not None]
