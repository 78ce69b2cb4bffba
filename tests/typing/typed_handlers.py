"""Handlers with types, as a user writes them. Nothing here runs: see ``api.py``.

Each ignored error is a mistake that a type checker must find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any, TypedDict, Unpack, assert_type

import msgspec
import pydantic

from holdfast import Context, Enqueued, EnqueueKeywords, Holdfast, JobRequest, Task
from holdfast.driver import JobRecord
from holdfast.testing import Inline

app = Holdfast("sqlite:///jobs.db")


class Mail(pydantic.BaseModel):
    """A payload."""

    to: str
    at: datetime | None = None


@dataclass
class Receipt:
    """A result."""

    number: int


class Parcel(msgspec.Struct):
    """A payload of msgspec."""

    weight: float


class Address(TypedDict):
    """A payload that is a dict."""

    street: str


class Colour(Enum):
    """A payload with few values."""

    RED = "red"


@app.handler("mail.send", queue="mail")
def send(payload: Mail, ctx: Context) -> Receipt:
    """A handler with a context."""
    return Receipt(ctx.attempt + len(payload.to))


@app.handler("parcel.send")
async def ship(payload: Parcel) -> Receipt | None:
    """An async handler: its result is the awaited value."""
    return Receipt(int(payload.weight)) if payload.weight else None


@app.handler("mail.all")
def send_all(payload: list[Mail]) -> dict[str, Mail]:
    """A list of models."""
    return {mail.to: mail for mail in payload}


@app.handler("mail.maybe")
def maybe(payload: Mail | None) -> None:
    """A payload that may be left out."""
    assert payload is None or payload.to


@app.handler("address.check")
def check(payload: Address) -> Colour:
    """A TypedDict, and an enum."""
    return Colour(payload["street"])


@app.handler("mail.chunk", chunk=50)
def send_chunk(payloads: list[Mail], contexts: list[Context]) -> list[Receipt | Exception]:
    """A chunk: a job has one mail and one receipt."""
    return [Receipt(context.attempt) for _, context in zip(payloads, contexts, strict=True)]


@app.handler("mail.log")
def log(payload: Mail):
    """Without a type of the result."""


@app.handler("mail.parse")
async def parse(payload: Mail) -> dict[str, Any]:
    """An async handler with any values."""
    return payload.model_dump()


class Count:
    """A class handler with a typed payload."""

    async def handle(self, payload: list[int], ctx: Context) -> int:
        """Run one job."""
        return sum(payload) + ctx.attempt


count = app.handler("count")(Count)


@app.handler
def bare(payload: Mail, ctx: Context) -> Receipt:
    """Without parentheses: its type is its name."""
    return send(payload, ctx)


@app.handler
async def bare_async(payload: Parcel) -> Receipt:
    """The same, async."""
    return Receipt(int(payload.weight))


@app.handler(queue="mail")
def untyped(payload: Mail | None = None) -> None:
    """Without a type; the payload has a default."""
    assert payload is None or payload.to


@app.handler(cron="0 6 * * *")
def nightly() -> int:
    """Without parameters."""
    return 1


@app.handler
async def nightly_async() -> str:
    """Without parentheses and parameters."""
    return ""


@app.handler(chunk=5)
def untyped_chunk(payloads: list[Mail]) -> list[Receipt]:
    """A chunk without a type."""
    return [Receipt(1) for _ in payloads]


bare_count = app.handler(Count)


def right_short(job: JobRecord, ctx: Context) -> None:
    """The same types in the short forms."""
    bare.enqueue(Mail(to="ada"), priority=9)
    assert_type(bare(Mail(to="ada"), ctx), Receipt)
    assert_type(bare.result(job), Receipt)
    assert_type(bare_async.result(job), Receipt)
    untyped.enqueue()
    untyped.enqueue(Mail(to="ada"))
    nightly.enqueue()
    nightly.enqueue(None, delay=timedelta(1))
    assert_type(nightly(), int)
    assert_type(nightly.result(job), int)
    assert_type(nightly_async.result(job), str)
    assert_type(untyped_chunk.result(job), Receipt)
    assert_type(bare_count.result(job), int)
    bare_count.enqueue([1])
    app.cron("report").daily(at="06:00").run(nightly)


def wrong_short() -> None:
    """The same mistakes in the short forms."""
    bare.enqueue({"to": "ada"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bare.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    nightly.enqueue(5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    untyped_chunk.enqueue([Mail(to="ada")])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bare_count.enqueue("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.handler(5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    app.handler(quue="mail")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def right(job: JobRecord) -> None:
    """What a type checker accepts, and what it infers."""
    assert_type(send.enqueue(Mail(to="ada"), priority=9, meta={"tenant": "acme"}, name="welcome"), Enqueued)
    send.enqueue(Mail(to="ada"), queue="mail", max_attempts=3, timeout=timedelta(1), on_conflict="return")
    send.enqueue(Mail(to="ada"), webhook="https://example.org/hook")
    assert_type(send.request(Mail(to="ada"), idempotency_key="ada"), JobRequest)
    assert_type(send.enqueue_many([Mail(to="ada")], keys=["ada"], priority=1), list[Enqueued])
    send_all.enqueue([Mail(to="ada")])
    maybe.enqueue()
    maybe.enqueue(None)
    maybe.enqueue(Mail(to="ada"), delay=timedelta(1))
    check.enqueue({"street": "Main"})
    send_chunk.enqueue(Mail(to="ada"))
    count.enqueue([1, 2])

    assert_type(send.result("some-id"), Receipt)
    assert_type(send.result(send.enqueue(Mail(to="ada")), timeout=30), Receipt)
    assert_type(ship.result(job), Receipt | None)
    assert_type(send_all.result(job), dict[str, Mail])
    assert_type(check.result(job), Colour)
    assert_type(send_chunk.result(job), Receipt)
    assert_type(count.result(job), int)


def right_inline(inline: Inline) -> None:
    """``run_job`` takes a task with its payload; a type, a plain function or a class with any."""
    assert_type(inline.run_job(send, Mail(to="ada"), attempt=2, meta={"tenant": "acme"}), Receipt)
    assert_type(inline.run_job(ship, Parcel(1.5)), Receipt | None)
    assert_type(inline.run_job(send_chunk, Mail(to="ada")), Receipt)
    inline.run_job(maybe)
    inline.run_job(maybe, None)
    inline.run_job(maybe, Mail(to="ada"))
    inline.run_job("mail.send", {"to": "ada"})
    inline.run_job(enqueue_later, {"to": "ada"})
    inline.run_job(Count, [1])
    inline.run_job(Count().handle, [1])
    inline.run_job(partial(enqueue_later, priority=1), {"to": "ada"})


def wrong_inline(inline: Inline) -> None:
    """The payload of a task is checked."""
    inline.run_job(send, {"to": "ada"})  # type: ignore[misc, arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    inline.run_job(ship, Mail(to="ada"))  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
    inline.run_job(maybe, 5)  # type: ignore[misc, arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    inline.run_job(send)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    inline.run_job(5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def right_async(ctx: Context) -> None:
    """A plain call has the type of the function; ``aenqueue`` and ``aresult`` are awaited."""
    assert_type(send(Mail(to="ada"), ctx), Receipt)
    assert_type(await ship(Parcel(1.5)), Receipt | None)
    job = await send.aenqueue(Mail(to="ada"), priority=1)
    assert_type(await send.aresult(job, timeout=timedelta(seconds=30)), Receipt)
    assert_type(await send.aenqueue_many([Mail(to="ada")]), list[Enqueued])


def wrong() -> None:
    """What a type checker refuses."""
    send.enqueue({"to": "ada"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    log.enqueue(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    parse.enqueue(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    send.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    send.enqueue(Mail(to="ada"), priorty=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    send.enqueue(Mail(to="ada"), priority="high")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    send.request(Parcel(1.5))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    send.enqueue_many([Parcel(1.5)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    send_all.enqueue(Mail(to="ada"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    maybe.enqueue(5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    check.enqueue({"street": 5})  # type: ignore[typeddict-item]  # pyright: ignore[reportArgumentType]
    send_chunk.enqueue([Mail(to="ada")])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    count.enqueue("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    number: int = send.result("some-id")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    send.result(number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.handler("t", quue="mail")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def wrong_async() -> None:
    """The same for async callers."""
    await send.aenqueue({"to": "ada"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await send.aenqueue_many([5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def enqueue_twice(task: Task[Mail, Any, ..., Any], mails: Sequence[Mail]) -> None:
    """A function of any task for mails."""
    task.enqueue_many([*mails, *mails])


@app.enqueue_middleware
def add_tenant(
    requests: Sequence[JobRequest], call_next: Callable[[Sequence[JobRequest]], list[Enqueued]]
) -> list[Enqueued]:
    """A middleware around every enqueue."""
    return call_next([replace(one, meta={**one.meta, "tenant": "acme"}) for one in requests])


@app.enqueue_middleware  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
def forget(requests: Sequence[JobRequest], call_next: Callable[[Sequence[JobRequest]], list[Enqueued]]) -> None:
    """A middleware without an answer."""
    call_next(requests)


def enqueue_later(mail: Mail, **options: Unpack[EnqueueKeywords]) -> Enqueued:
    """A function that passes on every option."""
    return send.enqueue(mail, **options)


enqueue_twice(send, [])
enqueue_twice(maybe, [])  # takes mails, and None
enqueue_twice(ship, [])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
