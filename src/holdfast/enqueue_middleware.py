"""Enqueue middleware: functions around every enqueue of a client, for trace context, a tenant, counts.

A middleware is called once for each call of the client, with all its requests, in the thread of the caller::

    @app.enqueue_middleware
    def add_tenant(requests, call_next):
        return call_next([replace(one, meta={**one.meta, "tenant": tenant.get()}) for one in requests])

``requests`` has one request for each job. Of ``enqueue_many`` a middleware is called once for each batch (up to 5,000
jobs), with one request for all its jobs: the template, without a payload. ``call_next`` takes as many requests as the
middleware got, stores the jobs, and returns one answer for each job, in order::

    @app.enqueue_middleware
    def count(requests, call_next):
        answers = call_next(requests)
        jobs = zip(requests, answers) if len(requests) > 1 else ((requests[0], one) for one in answers)
        ...
        return answers

A middleware returns these answers. If it raises, the caller gets the exception. ``EnqueueConflict`` is raised after all
middleware has returned: before, an answer has ``conflict=True``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from holdfast.errors import InvalidInput
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest

StoreRequests: TypeAlias = Callable[[Sequence[JobRequest]], list[Enqueued]]


class EnqueueMiddleware(Protocol):
    """A function around every enqueue: ``fn(requests, call_next)``."""

    def __call__(self, requests: Sequence[JobRequest], call_next: StoreRequests, /) -> list[Enqueued]:
        """Store the requests, or changed ones, with ``call_next``; return its answers."""
        ...


def enqueue_in_middleware(
    middleware: Sequence[EnqueueMiddleware], requests: Sequence[JobRequest], store: StoreRequests
) -> list[Enqueued]:
    """Call ``store`` inside the middleware. The first one is the outermost."""
    call: StoreRequests = partial(_store_as_many, store, len(requests))
    for wrapper in reversed(middleware):
        call = partial(_call, wrapper, call)
    return call(requests)


def _store_as_many(store: StoreRequests, count: int, requests: Sequence[JobRequest]) -> list[Enqueued]:
    if len(requests) != count:
        raise InvalidInput("enqueue middleware", wanted=f"{count} requests for call_next", got=len(requests))
    return store(requests)


def _call(wrapper: EnqueueMiddleware, call_next: StoreRequests, requests: Sequence[JobRequest]) -> list[Enqueued]:
    answers = wrapper(requests, call_next)
    if not isinstance(answers, list):  # most likely the middleware has no ``return``
        raise InvalidInput("enqueue middleware", wanted="the answers that call_next returned", got=answers)
    return answers
