"""OpenTelemetry: a span for every enqueue and for every attempt. Needs ``pip install 'holdfast[otel]'``.

``Holdfast(tracing=True)`` enables it. The context of the producer travels in the meta of the job, under the names that
the propagators of OpenTelemetry use: ``traceparent`` and ``tracestate`` of W3C by default. The span of the first
attempt is a child of the producer's span. A later attempt may come hours later: it begins a trace of its own, linked to
the producer's span.

Attributes and names follow the semantic conventions of messaging, where these have one.

Handlers run in forked processes. A ``BatchSpanProcessor`` starts its thread again in each of them; the spans that it
still holds are exported when the process ends. A process that is killed loses the spans of its last seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

try:
    from opentelemetry import propagate, trace
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "tracing needs the package opentelemetry-api: pip install 'holdfast[otel]'", name=error.name
    ) from error

from holdfast.model.job import Job
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.worker.context import Context
from holdfast.worker.control import Retry, Snooze, Unrecoverable

RESOURCE = "holdfast.tracing"  # of each child process: it is closed when the process ends
SYSTEM = "holdfast"


@contextmanager
def flush_at_exit() -> Iterator[None]:
    """Export the spans of this process when it ends: a forked process runs no ``atexit``."""
    yield
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)  # of the SDK; the API alone has no spans
    if flush is not None:
        flush()


def trace_enqueue(
    requests: Sequence[JobRequest], call_next: Callable[[Sequence[JobRequest]], list[Enqueued]]
) -> list[Enqueued]:
    """Store the jobs inside a span, whose context they carry. An enqueue middleware."""
    queues, types = {one.queue for one in requests}, {one.type for one in requests}
    type_ = types.pop() if len(types) == 1 else "jobs"
    attributes: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
    }
    if len(queues) == 1:
        attributes["messaging.destination.name"] = queues.pop()
    with _tracer().start_as_current_span(f"enqueue {type_}", kind=SpanKind.PRODUCER, attributes=attributes) as span:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        answers = call_next([replace(one, meta={**one.meta, **carrier}) for one in requests] if carrier else requests)
        if len(answers) == 1:
            span.set_attribute("messaging.message.id", answers[0].id)
        else:
            span.set_attribute("messaging.batch.message_count", len(answers))
        return answers


class TraceAttempt:
    """Calls the handler inside a span. A middleware; handlers for chunks have no span."""

    skips_chunks = True

    def __call__(self, context: Context, call_next: Callable[[], object]) -> object:
        """Run one attempt."""
        context.resources[RESOURCE]  # made once in each process, and closed at its end
        job = context.job
        parent = propagate.extract({name: value for name, value in job.meta.items() if isinstance(value, str)})
        producer = trace.get_current_span(parent).get_span_context()
        links = []
        if job.attempt > 1:
            parent = trace.set_span_in_context(trace.INVALID_SPAN, parent)
            links = [Link(producer)] if producer.is_valid else []
        with _tracer().start_as_current_span(
            f"process {job.type}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=_attributes(job),
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                answer = call_next()
            except BaseException as error:
                _end(span, error, context.stop_reason)
                raise
            _end(span, answer, None)
            return answer


def _tracer() -> trace.Tracer:
    return trace.get_tracer("holdfast")


def _attributes(job: Job) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.id,
        "holdfast.job.type": job.type,
        "holdfast.job.attempt": job.attempt,
        "holdfast.job.max_attempts": job.max_attempts,
        "holdfast.job.fence": job.fence,
    }
    if job.domain is not None:
        attributes["holdfast.job.domain"] = job.domain
    return attributes


def _end(span: Span, answer: object, stop_reason: str | None) -> None:
    """Set the status of the span from what the handler returned or raised. A snooze is no error."""
    match answer:
        case Snooze():
            outcome = "snooze"
        case Retry():
            outcome = "retry"
        case Unrecoverable():
            outcome = "unrecoverable"
        case BaseException() if stop_reason is not None:
            outcome = stop_reason
        case BaseException():
            outcome = "failed"
        case _:
            outcome = "done"
    span.set_attribute("holdfast.job.outcome", outcome)
    if isinstance(answer, BaseException) and not isinstance(answer, Snooze):
        span.set_attribute("error.type", type(answer).__qualname__)
        if stop_reason is None:
            span.record_exception(answer)
        span.set_status(Status(StatusCode.ERROR, stop_reason or f"{type(answer).__name__}: {answer}"))
