"""One attempt, as named steps: find the handler, read the payload, run it, say how it went.

Every engine runs these steps; none of them settles anything here. What a handler raises or returns is matched into a
value, and the effect happens elsewhere, in batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from holdfast.errors import PayloadError
from holdfast.wire.records import Brief, Gist, payload_of, to_job
from holdfast.worker.catalogue import Catalogue, Handler, Middleware, Resources, encode_result
from holdfast.worker.context import Context
from holdfast.worker.control import Retry, Snooze, Unrecoverable
from holdfast.worker.event_loop import Complete
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
    succeeded,
)

NOTHING = Succeeded()  # what most handlers return
KeepNote = Callable[[bytes | None, bytes | None], None]  # progress, checkpoint


def attempt(
    catalogue: Catalogue,
    resources: Resources,
    told: Gist,
    note: KeepNote,
    began: Callable[[Context], None] = lambda _: None,
    *,
    complete: Complete = asyncio.run,
) -> Outcome:
    """Run the job once. Only what interrupts the process itself comes out as an exception.

    ``complete`` runs what an async handler gives to its end. ``began`` is told the context, if anybody looks at it.
    """
    handler = catalogue.get(told.type)
    if handler is None:
        return UnknownType()
    if handler.chunk is not None:
        return together(handler, resources, [(told, note, began)], complete=complete)[0]
    context = None
    try:
        if handler.wants_context or catalogue.middleware:
            payload, context = _read(handler, resources, told, note)
            began(context)
        else:  # the payload is all that it is called with
            payload = handler.decode(payload_of(told))
    except PayloadError as error:
        return BadPayload(error=str(error))
    try:
        if context is not None and catalogue.middleware:
            return _matched(_chained(catalogue.middleware, handler, payload, context, complete))
        return _matched(_call(handler, payload, context, complete))
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is how its attempt ended
        return _matched(error)


def _read(handler: Handler, resources: Resources, told: Gist, note: KeepNote) -> tuple[object, Context]:
    """What the handler is called with."""
    assert isinstance(told, Brief), told  # ``Catalogue.plain_types`` and ``attempt`` agree on who needs it
    job = to_job(told)
    return handler.decode(job.payload), Context(job, checkpoint=told.checkpoint, resources=resources, note=note)


def _chained(
    middleware: list[Middleware], handler: Handler, payload: object, context: Context, complete: Complete
) -> object:
    """The handler inside its middleware; what that raises or returns counts as the handler's own."""
    call = partial(_call, handler, payload, context, complete)
    for wrapper in reversed(middleware):
        call = partial(wrapper, context, call)
    return call()


def _call(handler: Handler, payload: object, context: Context | None, complete: Complete) -> object:
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
                return succeeded(encode_result(answer))
            except PayloadError as error:
                return Unrecovered(reason="bad result", error=str(error))


# Several at a time -------------------------------------------------------------------------------------------

Member: TypeAlias = tuple[Gist, KeepNote, Callable[[Context], None]]


def goes_together(attempt: int, crashes: int) -> bool:
    """Whether a job may share a call: one that was tried before, whatever came of it, is alone with its second try."""
    return attempt == 1 and crashes == 0


def together(
    handler: Handler, resources: Resources, members: Sequence[Member], *, complete: Complete = asyncio.run
) -> list[Outcome]:
    """Run jobs of one type by one call of a handler for chunks; gives the outcome of each, in order."""
    outcomes: list[Outcome] = [NOTHING] * len(members)
    places, payloads, contexts = [], [], []
    for place, (told, note, began) in enumerate(members):
        try:
            payload, context = _read(handler, resources, told, note)
        except PayloadError as error:
            outcomes[place] = BadPayload(error=str(error))
            continue
        began(context)
        places.append(place)
        payloads.append(payload)
        contexts.append(context)
    answers = _in_halves(partial(_call_many, handler, complete), payloads, contexts) if places else []
    for place, answer in zip(places, answers, strict=True):
        outcomes[place] = _matched(answer)
    return outcomes


def _in_halves(
    call: Callable[[list[object], list[Context]], list[object]], payloads: list[object], contexts: list[Context]
) -> list[object]:
    """Call it for all; if that raises, for each half of them, and so on: what is wrong with one is soon its own.

    A wish to be called later is about all of them. Those that had been done when it raised are done again, which any
    job must bear.
    """
    try:
        return call(payloads, contexts)
    except (Retry, Snooze) as wish:
        return [wish] * len(payloads)
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is how its attempts ended
        half = len(payloads) // 2
        if not half:
            return [error]
        return _in_halves(call, payloads[:half], contexts[:half]) + _in_halves(call, payloads[half:], contexts[half:])


def _call_many(handler: Handler, complete: Complete, payloads: list[object], contexts: list[Context]) -> list[object]:
    answer = handler.function(payloads, contexts) if handler.wants_context else handler.function(payloads)
    answers = complete(answer) if handler.is_async else answer
    if not isinstance(answers, list | tuple) or len(answers) != len(payloads):
        got = f"{len(answers)}" if isinstance(answers, list | tuple) else type(answers).__name__
        raise TypeError(f"a handler for chunks gives a list of outcomes: wanted {len(payloads)}, got {got}")
    return list(answers)
