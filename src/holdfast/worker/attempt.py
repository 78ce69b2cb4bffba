"""One attempt, as named steps: find the handler, read the payload, run it, say how it went.

Every engine runs these steps; none of them settles anything here. What a handler raises or returns is matched into a
value, and the effect happens elsewhere, in batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from holdfast.errors import PayloadError
from holdfast.model.lease import Reservation
from holdfast.wire.records import to_job
from holdfast.worker.catalogue import Catalogue, Handler, Middleware, Resources, encode_result
from holdfast.worker.context import Context
from holdfast.worker.control import Retry, Snooze, Unrecoverable
from holdfast.worker.loop import Complete
from holdfast.worker.outcome import (
    BadPayload,
    Failed,
    Outcome,
    RetryAsked,
    Snoozed,
    Succeeded,
    UnknownType,
    Unrecovered,
    error_text,
)

NOTHING = Succeeded()  # what most handlers return
KeepNote = Callable[[bytes | None, bytes | None], None]  # progress, checkpoint


def attempt(
    catalogue: Catalogue,
    resources: Resources,
    reservation: Reservation,
    note: KeepNote,
    began: Callable[[Context], None] = lambda _: None,
    *,
    complete: Complete = asyncio.run,
) -> Outcome:
    """Run the job once. Only what interrupts the process itself comes out as an exception.

    ``complete`` runs what an async handler gives to its end.
    """
    handler = catalogue.get(reservation.job.type)
    if handler is None:
        return UnknownType()
    try:
        job = to_job(reservation)
        payload = handler.decode(job.payload)
        context = Context(job, checkpoint=reservation.checkpoint, resources=resources, note=note)
    except PayloadError as error:
        return BadPayload(error=str(error))
    began(context)
    try:
        return _matched(_chained(catalogue.middleware, handler, payload, context, complete))
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is how its attempt ended
        return _matched(error)


def _chained(
    middleware: list[Middleware], handler: Handler, payload: object, context: Context, complete: Complete
) -> object:
    """The handler inside its middleware; what that raises or returns counts as the handler's own."""
    if not middleware:
        return _call(handler, payload, context, complete)
    call = partial(_call, handler, payload, context, complete)
    for wrapper in reversed(middleware):
        call = partial(wrapper, context, call)
    return call()


def _call(handler: Handler, payload: object, context: Context, complete: Complete) -> object:
    answer = handler.function(payload, context) if handler.wants_context else handler.function(payload)
    return complete(answer) if handler.is_async else answer


def _matched(answer: object) -> Outcome:
    """What a handler returned or raised, as an outcome."""
    match answer:
        case None:
            return NOTHING
        case Retry():
            return RetryAsked(after=answer.after, error=answer.reason)
        case Snooze():
            return Snoozed(delay=answer.delay, budget=answer.budget, reason=answer.reason)
        case Unrecoverable():
            return Unrecovered(reason=answer.reason, error=error_text(answer))
        case Exception():
            return Failed(error=error_text(answer), kind=type(answer).__name__)
        case _:
            try:
                return Succeeded(result=encode_result(answer))
            except PayloadError as error:
                return Unrecovered(reason="bad result", error=str(error))
