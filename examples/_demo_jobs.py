"""The jobs of the demo: a shop's busy minute. The workers import this module: `holdfast work _demo_jobs:app`."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from holdfast import JobRequest
from holdfast.app import Holdfast
from holdfast.model.retry import Fixed
from holdfast.worker.context import Context
from holdfast.worker.control import Unrecoverable

QUEUE = "shop"
MOVES_PER_SHELF = 25
CURRENCIES = "currencies"  # a row of the registry: settings that all workers share, and that an operator can change
UNKNOWN_CURRENCY = "unknown currency XTS"

# type: (its share of all jobs, what is special about it); the first one takes what the others leave
KINDS = {
    "receipt.send": (None, "plain"),
    "alert.push": (0.05, "priority 9, sent last"),
    "report.build": (0.05, "scheduled for later"),
    "stock.move": (0.08, "in order, by shelf"),
    "payment.take": (0.05, "sent twice, same key"),
    "gateway.call": (0.05, "fails twice, then works"),
    "invoice.issue": (0.02, "cannot succeed"),
    "picture.resize": (0.0, "kills its process"),
}

Payload: TypeAlias = dict[str, Any]

app = Holdfast("sqlite:///demo.db")  # `--url` says which file it is


# Handlers ---------------------------------------------------------------------------------------------------


@app.handler("receipt.send", queue=QUEUE)
def send_receipt(payload: Payload) -> None:
    work(payload)


@app.handler("alert.push", queue=QUEUE, priority=9)
def push_alert(payload: Payload) -> None:
    work(payload)


@app.handler("report.build", queue=QUEUE, priority=5)
def build_report(payload: Payload) -> None:
    work(payload)


@app.handler("stock.move", queue=QUEUE, priority=5, retry=Fixed(timedelta(milliseconds=50)))
def move_stock(payload: Payload, ctx: Context) -> None:
    work(payload)
    if payload["jams"] and ctx.attempt == 1:
        raise TimeoutError("the lift is stuck")


@app.handler("payment.take", queue=QUEUE)
def take_payment(payload: Payload) -> None:
    work(payload)


@app.handler("gateway.call", queue=QUEUE, retry=Fixed(timedelta(milliseconds=150)))
def call_gateway(payload: Payload, ctx: Context) -> None:
    work(payload)
    if ctx.attempt <= 2:
        raise ConnectionError("the gateway answered 503")


@app.handler("invoice.issue", queue=QUEUE)
def issue_invoice(payload: Payload) -> None:
    work(payload)
    [known] = app.driver.read("shop", [CURRENCIES])
    if known is None or known.value is None or payload["currency"] not in known.value.decode().split():
        raise Unrecoverable(f"unknown currency {payload['currency']}")
    if not payload["lines"]:
        raise Unrecoverable("invoice has no lines")


@app.handler("picture.resize", queue=QUEUE, retry=Fixed(timedelta(milliseconds=100)))
def resize_picture(payload: Payload) -> None:
    """What the kernel does to a process that has taken all memory."""
    work(payload)
    os.kill(os.getpid(), signal.SIGKILL)


def work(payload: Payload) -> None:
    """What the job would do."""
    time.sleep(payload["seconds"])


# Requests ---------------------------------------------------------------------------------------------------


def one_job(count: int) -> float:
    """Seconds that a job takes: those of a quick service, and longer if there are so few that nothing could be seen."""
    return max(0.0003, 6 / count)


def requests(count: int, seed: int) -> list[JobRequest]:
    """So many jobs of all kinds, mixed; the alerts come last and should still run first."""
    random_ = random.Random(seed)
    shares = {type: max(2, int(count * share)) for type, (share, _) in KINDS.items() if share}
    shares["picture.resize"] = 1
    shares["receipt.send"] = count - sum(shares.values())
    mixed = [type for type, number in shares.items() if type != "alert.push" for _ in range(number)]
    random_.shuffle(mixed)
    shelves = 1 + shares["stock.move"] // MOVES_PER_SHELF
    seconds = one_job(count)
    return [
        _request(type, {"number": number, "seconds": seconds}, shelves, random_)
        for number, type in enumerate(mixed + ["alert.push"] * shares["alert.push"])
    ]


def _request(type: str, payload: Payload, shelves: int, random_: random.Random) -> JobRequest:
    match type:
        case "alert.push":
            return push_alert.request(payload)
        case "report.build":
            return build_report.request(payload, delay=timedelta(seconds=random_.uniform(0.5, 2.5)))
        case "stock.move":
            jams = random_.random() < 0.05
            return move_stock.request(payload | {"jams": jams}, domain=f"shelf-{random_.randrange(shelves)}")
        case "payment.take":
            return take_payment.request(payload, idempotency_key=f"payment-{payload['number']}")
        case "gateway.call":
            return call_gateway.request(payload)
        case "invoice.issue":
            invoice = random_.choice([{"currency": "EUR", "lines": 0}, {"currency": "XTS", "lines": 3}])
            return issue_invoice.request(payload | invoice)
        case "picture.resize":
            return resize_picture.request(payload)
    return send_receipt.request(payload)


def with_keys(asked: Sequence[JobRequest]) -> list[int]:
    """The places of the requests that carry an idempotency key, and so may safely be sent again."""
    return [place for place, request in enumerate(asked) if request.idempotency_key is not None]
