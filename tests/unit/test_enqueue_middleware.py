"""Enqueue middleware: one call around each enqueue, which may change the requests and sees the answers."""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import replace

import pytest

from holdfast import Client, Holdfast, JobRequest, connect
from holdfast.errors import EnqueueConflict, InvalidInput, StoreBusy

tenant = contextvars.ContextVar("tenant", default="none")


@pytest.fixture
def app():
    app = Holdfast("memory://")
    yield app
    app.close()


@pytest.fixture
def send(app):
    @app.handler("mail.send", queue="mail", meta={"team": "growth"})
    def send(payload):
        return payload

    return send


def add_tenant(requests, call_next):
    return call_next([replace(one, meta={**one.meta, "tenant": tenant.get()}) for one in requests])


def meta_of(app, answer):
    return app.client.get(answer.id).meta


def test_a_middleware_changes_the_requests_of_every_way_to_enqueue(app, send):
    app.enqueue_middleware(add_tenant)
    tenant.set("acme")
    answers = [
        send.enqueue(1),
        *send.enqueue_many([2, 3]),
        app.client.enqueue(JobRequest(type="other")),
        *app.client.enqueue([send.request(4), JobRequest(type="other")]),
        asyncio.run(send.aenqueue(5)),
    ]
    assert [meta_of(app, one)["tenant"] for one in answers] == ["acme"] * 7
    assert meta_of(app, answers[0]) == {"team": "growth", "tenant": "acme"}


def test_a_middleware_is_called_once_for_each_call(app, send):
    seen = []

    @app.enqueue_middleware
    def observe(requests, call_next):
        answers = call_next(requests)
        seen.append(([one.type for one in requests], [one.existed for one in answers]))
        return answers

    send.enqueue_many([1, 2, 1], keys=["a", "b", "a"])
    app.client.enqueue([send.request(1), JobRequest(type="other")])
    app.client.enqueue([])  # nothing to store, and no template for a middleware to look at
    assert seen == [(["mail.send"], [False, False, True]), (["mail.send", "other"], [False, False])]


def test_the_first_middleware_is_the_outermost(app, send):
    def add(name):
        def wrapper(requests, call_next):
            calls.append(name)
            return call_next([replace(one, name=f"{one.name or ''}{name}") for one in requests])

        return wrapper

    calls: list[str] = []
    app.enqueue_middleware(add("a"))
    app.enqueue_middleware(add("b"))
    assert app.client.get(send.enqueue(1).id).name == "ab"
    assert calls == ["a", "b"]


def test_a_middleware_of_a_client_without_an_app():
    client = Client(connect("memory://"), middleware=[add_tenant])
    assert client.get(client.enqueue(JobRequest(type="t")).id).meta == {"tenant": tenant.get()}


def test_a_conflict_is_raised_after_the_middleware_has_seen_it(app, send):
    conflicts = []

    @app.enqueue_middleware
    def observe(requests, call_next):
        answers = call_next(requests)
        conflicts.extend(one.conflict for one in answers)
        return answers

    send.enqueue(1, idempotency_key="k")
    with pytest.raises(EnqueueConflict):
        send.enqueue(2, idempotency_key="k")
    assert conflicts == [False, True]
    assert send.enqueue(2, idempotency_key="k", on_conflict="return").conflict


def test_a_middleware_may_try_again(app, send):
    @app.enqueue_middleware
    def again(requests, call_next):
        call_next(requests)
        return call_next(requests)

    answers = send.enqueue_many(iter([1, 2]), keys=iter(["a", "b"]))
    assert [one.existed for one in answers] == [True, True]


def test_an_exception_of_a_middleware_reaches_the_caller_and_nothing_is_stored(app, send):
    @app.enqueue_middleware
    def refuse(requests, call_next):
        raise StoreBusy(1)

    with pytest.raises(StoreBusy):
        send.enqueue(1)
    assert app.driver.find().items == []


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        (lambda requests, call_next: call_next([*requests, *requests]), "wanted 1 requests for call_next, got 2"),
        (lambda _, call_next: call_next([{"type": "t"}]), "wanted a JobRequest"),
        (lambda *_: None, "wanted the answers that call_next returned, got None"),
    ],
)
def test_a_wrong_middleware_is_an_error(app, send, wrapper, message):
    app.enqueue_middleware(wrapper)
    with pytest.raises(InvalidInput, match=message):
        send.enqueue(1)
