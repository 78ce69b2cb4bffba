"""Handlers that look right and do no work: generators, coroutines, exception classes. Their jobs are not done."""

from __future__ import annotations

import asyncio
import functools

import pytest

from holdfast.errors import InvalidInput
from holdfast.worker.control import Retry, Snooze, Unrecoverable


def undecorated(function):
    """A decorator that does not know async functions."""

    @functools.wraps(function)
    def call(payload):
        return function(payload)

    return call


def yield_one(payload):
    yield payload


async def ayield_one(payload):
    yield payload


class YieldingClass:
    def handle(self, ctx):
        yield ctx


class YieldingMethod:
    def __call__(self, payload):
        yield payload


@pytest.mark.parametrize(
    "function",
    [yield_one, ayield_one, YieldingClass, YieldingMethod(), functools.partial(yield_one)],
    ids=["function", "async", "class", "object", "partial"],
)
def test_a_generator_cannot_be_a_handler(app, function):
    with pytest.raises(InvalidInput, match="wanted a function that returns its result, got one with yield"):
        app.handler("lazy")(function)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_the_coroutine_of_a_plain_function_is_awaited(app, drain, concurrency):
    @app.handler("double")
    @undecorated
    async def double(payload):
        await asyncio.sleep(0)
        return payload * 2

    @app.handler("later")
    def later(payload):
        return double.function(payload)

    answers = [double.enqueue(21), later.enqueue(2)]
    assert drain(concurrency=concurrency) == {"acked": 2}
    assert [app.client.result(answer.id) for answer in answers] == [42, 4]


def test_the_coroutine_of_a_plain_function_for_chunks_is_awaited(app, drain):
    @app.handler("double", chunk=2)
    @undecorated
    async def double(payloads):
        return [2 * one for one in payloads]

    answers = double.enqueue_many([1, 2])
    assert drain() == {"acked": 2}
    assert [app.client.result(answer.id) for answer in answers] == [2, 4]


@pytest.mark.parametrize("lazy", [yield_one, ayield_one, undecorated(yield_one)], ids=["plain", "async", "decorated"])
def test_an_attempt_that_returns_a_generator_fails(app, drain, lazy):
    @app.handler("lazy", max_attempts=1)
    def begin(payload):
        return lazy(payload)

    answer = begin.enqueue(1)
    assert drain() == {"dead": 1}
    record = app.client.get(answer.id)
    assert "the handler or a middleware returned" in record.last_error
    assert "generator" in record.last_error


def test_a_middleware_is_a_plain_function(app, drain):
    async def wait(ctx, call_next):
        return call_next()

    def surround(ctx, call_next):
        yield call_next()

    for wrapper, got in ((wait, "async"), (surround, "yield"), (5, "5")):
        with pytest.raises(InvalidInput, match=f"middleware: wanted a plain function .*, got .*{got}"):
            app.middleware(wrapper)

    @app.middleware
    def forward(ctx, call_next):
        return wait(ctx, call_next)

    answer = app.handler("t", max_attempts=1)(lambda payload: payload).enqueue(1)
    assert drain() == {"dead": 1}
    assert "coroutine" in app.client.get(answer.id).last_error


@pytest.mark.parametrize("answer", [Retry, Unrecoverable, ValueError, KeyboardInterrupt, Snooze], ids=repr)
def test_an_exception_class_as_an_answer_is_not_a_result(app, drain, answer):
    returned = app.handler("t", max_attempts=1)(lambda _: answer).enqueue(1)
    assert drain() == {"dead": 1}
    assert app.client.get(returned.id).state == "dead"


def test_a_method_in_a_class_body_cannot_be_a_handler(app):
    with pytest.raises(InvalidInput, match=r"handler: wanted fn.payload.*, got a method without its object: m.self, p"):

        class Mailer:
            @app.handler("mail")
            def m(self, p): ...

    class Counter:
        def count(self, payload):
            return payload

    app.handler("bound")(Counter().count)
