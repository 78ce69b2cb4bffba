"""One attempt as named steps: find the handler, read the payload, call the handler, turn its answer into an outcome.

The steps before it (the allowlist, the idempotency guard, the single-instance lock) are in ``worker.guard``: they need
the store, which the process of a handler does not have.

The worker, the test kit and Spark run the same steps. Nothing is settled here: the value that a handler returns or
raises becomes an ``Outcome``, and the worker settles it later, in a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from functools import partial
from types import CoroutineType
from typing import TypeAlias

from holdfast.errors import PayloadError
from holdfast.model import bounds
from holdfast.wire.job_message import JobMessage, PayloadMessage, read_job, read_payload
from holdfast.worker.catalogue import Catalogue, Handler, Middleware
from holdfast.worker.context import Context
from holdfast.worker.control import Retry, Snooze, Unrecoverable
from holdfast.worker.event_loop import RunCoroutine
from holdfast.worker.job_log import current_jobs
from holdfast.worker.outcome import (
    BadPayload,
    Failed,
    Outcome,
    RetryRequested,
    Snoozed,
    Succeeded,
    UnknownType,
    Unrecovered,
    error_text,
    plain_text,
)
from holdfast.worker.output import Output, captured
from holdfast.worker.resources import Resources

BAD_RESULT = "bad result"  # the reason of the dead letter
RESULT_NOT_STORED = "result not stored: "  # begins the detail of the settlement
_SUCCEEDED_WITHOUT_RESULT = Succeeded()
AddNote = Callable[[bytes | None, bytes | None], None]  # progress, checkpoint
AddOutput = Callable[[Output], None]  # called when the handler has ended
OnContext = Callable[[Context], None]  # called with the context before the handler is called


ChunkMember: TypeAlias = tuple[PayloadMessage, AddNote, OnContext]


def attempt(
    catalogue: Catalogue,
    resources: Resources,
    message: PayloadMessage,
    add_note: AddNote,
    on_context: OnContext = lambda _: None,
    *,
    run_coroutine: RunCoroutine = asyncio.run,
    add_output: AddOutput | None = None,
) -> Outcome:
    """Run the job once and return the outcome. Raises only what interrupts the process itself.

    ``run_coroutine`` runs the coroutine of an async handler. ``on_context`` is called only if the handler, or a
    middleware, gets a context. ``add_output`` is called with what the handler printed, if that is captured.
    """
    handler = catalogue.get(message.type)
    if handler is None:
        return UnknownType()
    member = message, add_note, on_context
    if handler.chunk is not None:
        return attempt_chunk(handler, resources, [member], run_coroutine=run_coroutine)[0]
    if not handler.capture_output or add_output is None:
        return _attempt_one(catalogue, handler, resources, member, run_coroutine)
    with captured() as tail:
        try:
            return _attempt_one(catalogue, handler, resources, member, run_coroutine)
        finally:  # also of an attempt that is interrupted
            add_output(tail.read())


def _attempt_one(
    catalogue: Catalogue, handler: Handler, resources: Resources, member: ChunkMember, run_coroutine: RunCoroutine
) -> Outcome:
    message, add_note, on_context = member
    context = None
    try:
        if handler.wants_context or catalogue.middleware:
            payload, context = _read(handler, resources, message, add_note)
            on_context(context)
        else:
            payload = handler.decode(read_payload(message))
    except PayloadError as error:
        return BadPayload(error=plain_text(str(error)))
    except Exception as error:  # noqa: BLE001 - a validator in the type of the payload is user code
        return _to_outcome(error, handler)
    in_log = current_jobs.set((message,))
    try:
        if context is not None and catalogue.middleware:
            answer = _call_in_middleware(catalogue.middleware, handler, payload, context, run_coroutine)
        else:
            answer = _call(handler, payload, context, run_coroutine)
        return _to_outcome(answer, handler)
    except Exception as error:  # noqa: BLE001 - any exception of a handler is the outcome of its attempt
        return _to_outcome(error, handler)
    finally:
        current_jobs.reset(in_log)
        if context is not None:
            context.close()


def _read(handler: Handler, resources: Resources, message: PayloadMessage, add_note: AddNote) -> tuple[object, Context]:
    """Return the arguments of the handler."""
    assert isinstance(message, JobMessage), message  # other handlers are in ``Catalogue.payload_only_types``
    job = read_job(message)
    context = Context(job, checkpoint=message.checkpoint, resources=resources, add_note=add_note)
    return handler.decode(job.payload), context


def _call_in_middleware(
    middleware: list[Middleware], handler: Handler, payload: object, context: Context, run_coroutine: RunCoroutine
) -> object:
    """Call the handler inside its middleware. An answer or exception of the middleware counts as the handler's."""
    call = partial(_call, handler, payload, context, run_coroutine)
    for wrapper in reversed(middleware):
        call = partial(wrapper, context, call)
    return call()


def _call(handler: Handler, payload: object, context: Context | None, run_coroutine: RunCoroutine) -> object:
    answer = handler.function(payload, context) if handler.wants_context else handler.function(payload)
    return run_coroutine(answer) if handler.is_async or isinstance(answer, CoroutineType) else answer


def _to_outcome(answer: object, handler: Handler) -> Outcome:
    """Return the outcome for the value that a handler returned or raised. Any text or number in it can be stored."""
    try:
        return _read_answer(answer, handler)
    except Exception as error:  # noqa: BLE001 - a control value whose attributes were replaced, for example
        return Failed.by(error)


def _read_answer(answer: object, handler: Handler) -> Outcome:
    match answer:
        case None:
            return _SUCCEEDED_WITHOUT_RESULT
        case Retry():
            after = bounds.check_optional_integer("after", answer.after, most=bounds.MAX_DURATION)
            pauses = {"pause_type": answer.pause_type is True, "pause_key": answer.pause_key is True}
            return RetryRequested(after=after, error=plain_text(answer.reason), **pauses)
        case Snooze():
            delay = bounds.check_integer("delay", answer.delay, most=bounds.MAX_DURATION)
            budget = bounds.check_integer("budget", answer.budget, most=bounds.MAX_DURATION)
            return Snoozed(delay=delay, budget=budget, reason=plain_text(answer.reason))
        case Unrecoverable():
            reason = plain_text(answer.reason, bounds.MAX_REASON_CHARACTERS)
            return Unrecovered(reason=reason, error=error_text(answer))
        case BaseException():
            return Failed.by(answer)
        case type() if issubclass(answer, BaseException):  # ``return Retry``: as ``raise Retry`` does, without its text
            return _read_answer(answer(), handler)
        case _:
            try:
                encoded = handler.encode_result(answer)
                return _SUCCEEDED_WITHOUT_RESULT if encoded == b"null" else Succeeded(result=encoded)
            except Exception as error:  # noqa: BLE001 - a result may raise anything when it is read
                check_finished(answer)
                return _without_result(error, strict=bool(handler.strict_result))


class UnfinishedAnswer(TypeError):
    """A handler returned a generator or a coroutine: the call has only begun the work, and nobody continues it."""

    def __init__(self, answer: object) -> None:
        wanted = "wanted a result that does not have to be iterated or awaited"
        super().__init__(f"the handler or a middleware returned a {type(answer).__name__}: {wanted}")


def check_finished(answer: object) -> None:
    """Raise ``UnfinishedAnswer`` for a generator or a coroutine."""
    if isinstance(answer, Generator | AsyncGenerator | Awaitable):
        raise UnfinishedAnswer(answer)


def _without_result(error: Exception, *, strict: bool) -> Outcome:
    """Return the outcome of an attempt whose result cannot be stored. Its work is done, so it is not done again."""
    reason = plain_text(str(error) if isinstance(error, PayloadError) else error, bounds.MAX_REASON_CHARACTERS)
    if strict:
        return Unrecovered(reason=BAD_RESULT, error=reason)
    return Succeeded(detail=f"{RESULT_NOT_STORED}{' '.join(reason.split())}")


# Chunks: several jobs in one call ---------------------------------------------------------------------------


def may_share_call(attempt: int, max_attempts: int, crashes: int) -> bool:
    """Whether a job may share a call with others: its first attempt may, unless it is the last one."""
    return attempt == 1 < max_attempts and crashes == 0


def attempt_chunk(
    handler: Handler, resources: Resources, members: Sequence[ChunkMember], *, run_coroutine: RunCoroutine = asyncio.run
) -> list[Outcome]:
    """Run jobs of one type by one call of a chunk handler; return the outcome of each, in order."""
    outcomes: list[Outcome] = [_SUCCEEDED_WITHOUT_RESULT] * len(members)
    indexes, payloads, contexts = [], [], []
    for index, (message, add_note, on_context) in enumerate(members):
        try:
            payload, context = _read(handler, resources, message, add_note)
        except PayloadError as error:
            outcomes[index] = BadPayload(error=plain_text(str(error)))
            continue
        except Exception as error:  # noqa: BLE001 - as in ``attempt``
            outcomes[index] = _to_outcome(error, handler)
            continue
        on_context(context)
        indexes.append(index)
        payloads.append(payload)
        contexts.append(context)
    in_log = current_jobs.set([context.job for context in contexts])
    try:
        answers = _call_by_halves(partial(_call_chunk, handler, run_coroutine), payloads, contexts) if indexes else []
    finally:
        current_jobs.reset(in_log)
        for context in contexts:
            context.close()
    for index, answer in zip(indexes, answers, strict=True):
        outcomes[index] = _to_outcome(answer, handler)
    return outcomes


class WrongResultCount(TypeError):
    """A handler for chunks did not return one result for each job."""


def _call_by_halves(
    call: Callable[[list[object], list[Context]], list[object]], payloads: list[object], contexts: list[Context]
) -> list[object]:
    """Call the handler for all jobs. If it raises, call it for each half, and so on, until the bad job is alone.

    ``Retry`` and ``Snooze`` apply to all jobs of the call, and so does an answer of the wrong length: no job is worse
    than another, and smaller calls would not find one. Work that was done before the handler raised is done again,
    which every job must tolerate.
    """
    try:
        return call(payloads, contexts)
    except (Retry, Snooze, WrongResultCount) as error:
        return [error] * len(payloads)
    except Exception as error:  # noqa: BLE001 - any exception of a handler is the outcome of its attempts
        half = len(payloads) // 2
        if not half:
            return [error]
        return _call_by_halves(call, payloads[:half], contexts[:half]) + _call_by_halves(
            call, payloads[half:], contexts[half:]
        )


def _call_chunk(
    handler: Handler, run_coroutine: RunCoroutine, payloads: list[object], contexts: list[Context]
) -> list[object]:
    answer = handler.function(payloads, contexts) if handler.wants_context else handler.function(payloads)
    answers = run_coroutine(answer) if handler.is_async or isinstance(answer, CoroutineType) else answer
    if not isinstance(answers, list | tuple) or len(answers) != len(payloads):
        got = f"{len(answers)}" if isinstance(answers, list | tuple) else type(answers).__name__
        raise WrongResultCount(f"a handler for chunks returns a list of results: wanted {len(payloads)}, got {got}")
    return list(answers)
