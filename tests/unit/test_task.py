"""The options of ``enqueue``, ``request`` and ``enqueue_many`` of a handler."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import get_type_hints

import pytest

from holdfast import Client, Holdfast, JobRequest, connect
from holdfast.app import HandlerKeywords
from holdfast.client import EnqueueKeywords, EnqueueManyKeywords
from holdfast.clock import MINUTE, SECOND
from holdfast.errors import InvalidInput, UnknownTypeWarning
from holdfast.model.request import RequestKeywords
from holdfast.retry import Fixed

OPTIONS = {
    "queue": "urgent",
    "priority": 9,
    "run_at": datetime(2030, 1, 1, tzinfo=UTC),
    "timeout": timedelta(seconds=5),
    "max_attempts": 2,
    "retry": Fixed(timedelta(seconds=1)),
    "domain": "d",
    "name": "n",
    "meta": {"b": 2},
    "webhook": "https://example.org/hook",
}


@pytest.fixture
def app():
    app = Holdfast("memory://")
    yield app
    app.close()


@pytest.fixture
def send(app):
    @app.handler("mail.send", queue="mail", priority=3, max_attempts=7, timeout=timedelta(minutes=1), meta={"a": 1})
    def send(payload):
        return payload

    return send


def test_the_keywords_are_the_fields_of_a_request():
    hints = get_type_hints(JobRequest)
    expected = {field.name: hints[field.name] for field in fields(JobRequest)}
    del expected["type"], expected["payload"]
    assert get_type_hints(RequestKeywords) == expected
    for_call = {"connection", "on_conflict"}
    assert set(get_type_hints(EnqueueKeywords)) == {*expected, *for_call}
    assert set(get_type_hints(EnqueueManyKeywords)) == {*expected, *for_call} - {"idempotency_key", "offset"}


def test_the_keywords_of_a_handler_are_the_parameters_of_the_decorator():
    assert {"self", "type", "chunk", *get_type_hints(HandlerKeywords)} == {
        *inspect.signature(Holdfast.handler).parameters
    }


def test_a_job_is_as_the_handler_says(app, send):
    job = app.client.get(send.enqueue(1).id)
    assert (job.queue, job.priority, job.max_attempts, job.timeout, job.meta) == ("mail", 3, 7, MINUTE, {"a": 1})


def test_every_option_replaces_what_the_handler_says(app, send):
    answers = [
        send.enqueue(1, **OPTIONS, idempotency_key="k"),
        app.client.enqueue(send.request(1, **OPTIONS, idempotency_key="l")),
        *send.enqueue_many([1, 2], **OPTIONS, keys=["m", None]),
    ]
    jobs = [app.client.get(answer.id) for answer in answers]
    assert [job.idempotency_key for job in jobs] == ["k", "l", "m", None]
    assert send.request(1, domain="d", offset=5).offset == 5
    for job in jobs:
        assert (job.queue, job.priority, job.max_attempts, job.timeout) == ("urgent", 9, 2, 5 * SECOND)
        assert (job.run_at, job.domain, job.name) == (1_893_456_000 * SECOND, "d", "n")
        assert job.webhook == "https://example.org/hook"
        assert job.meta == {"a": 1, "b": 2, "holdfast.retry": "fixed(1s, no jitter)"}


def test_an_unknown_option_is_refused(app, send):
    for call in (send.enqueue, send.request):
        with pytest.raises(TypeError, match="priorty"):
            call(1, priorty=3)
    with pytest.raises(TypeError, match="quue"):
        app.handler("t", quue="q")


def test_a_payload_as_keywords_is_refused_before_the_payload_is_checked(app):
    @app.handler("greet")
    def greet(name: str):
        return name

    calls = (greet.enqueue, greet.request, greet.aenqueue, partial(app.enqueue, "greet"), partial(app.request, "gret"))
    for call in calls:
        with pytest.raises(TypeError, match=r"argument 'to': wanted one payload, .* queue, priority"):
            asyncio.run(call(to="ada"))
    with pytest.raises(TypeError, match="unexpected keyword argument 'to'"):
        greet.enqueue_many([5], to="ada")


def test_the_client_of_an_app_is_made_once_for_each_store(app):
    client = app.client
    assert app.client is client
    with connect("memory://") as other, app.using(other):
        assert app.client.driver is other
        assert app.client is app.client
    assert app.client is client
    app.close()
    assert app.client.driver is app.driver is not client.driver


def test_a_request_without_attempts_gets_those_of_its_handler_from_the_client_of_the_app(app, send, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_ATTEMPTS", "4")

    @app.handler("plain")
    def plain(payload):
        return payload

    request = JobRequest(type="mail.send")
    answers = [
        app.client.enqueue(request),
        app.client.enqueue([request])[0],
        app.client.enqueue_many(request, [1])[0],
        asyncio.run(app.async_client.enqueue(request)),
    ]
    assert {app.client.get(answer.id).max_attempts for answer in answers} == {7}
    others = [
        app.client.enqueue(JobRequest(type="mail.send", max_attempts=2)),
        plain.enqueue(),
        app.client.enqueue(JobRequest(type="of.another.app")),
        Client(app.driver).enqueue(request),
    ]
    assert [app.client.get(answer.id).max_attempts for answer in others] == [2, 4, 4, 25]


# By the type ------------------------------------------------------------------------------------------------


def test_an_app_enqueues_a_type_as_its_handler_says(app, send):
    answers = [
        app.enqueue("mail.send", 1, priority=5),
        asyncio.run(app.aenqueue("mail.send", 1, priority=5)),
        app.client.enqueue(app.request("mail.send", 1, priority=5)),
    ]
    for answer in answers:
        job = app.client.get(answer.id)
        assert (job.queue, job.priority, job.max_attempts, job.timeout) == ("mail", 5, 7, MINUTE)


def test_an_unknown_type_is_a_warning_with_the_nearest_known_one(app, send, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_ATTEMPTS", "3")
    with pytest.warns(UnknownTypeWarning, match=r"no handler for 'mail.sned'; did you mean 'mail.send'\?") as caught:
        answer = app.enqueue("mail.sned", 1)
    assert caught[0].filename == __file__
    assert app.client.get(answer.id).max_attempts == 3
    with pytest.warns(UnknownTypeWarning, match="no handler for 'x'$"):
        app.enqueue("x")


def test_a_type_that_is_no_name_is_refused(app, send):
    for wrong in (send, {"to": "ada"}, "mail send"):
        with pytest.raises(InvalidInput, match="type: wanted 1 to 128 of the characters"):
            app.enqueue(wrong, 1)


def test_what_is_no_job_has_no_result(send):
    for wrong in (None, 5):
        with pytest.raises(InvalidInput, match="id: wanted"):
            send.result(wrong)
        with pytest.raises(InvalidInput, match="id: wanted"):
            send.result(wrong, timeout=1)


def test_a_retry_that_is_no_policy_is_refused(app):
    with pytest.raises(InvalidInput, match=r"retry: wanted a policy such as Exponential\(.*\), got 3"):
        app.handler("t", retry=3)(print)


@pytest.mark.parametrize(
    ("keywords", "wanted"),
    [
        ({"driver": 5}, "driver: wanted a driver"),
        ({"store": 5}, "store: wanted a name"),
        ({"metrics": 5}, "metrics: wanted an object with count, observe and gauge"),
        ({"metrics": "module:collector"}, "metrics: wanted an object with count, observe and gauge"),
    ],
)
def test_an_app_is_made_of_the_right_objects(keywords, wanted):
    with pytest.raises(InvalidInput, match=wanted):
        Holdfast(**keywords)


@pytest.mark.parametrize("flag", ["strict_result", "capture_output", "idempotent"])
def test_a_flag_of_a_handler_is_true_or_false(app, flag):
    with pytest.raises(InvalidInput, match=f"{flag}: wanted true or false, got no"):
        app.handler("t", **{flag: "no"})(lambda payload: payload)


def test_resources_and_enqueue_middleware_are_functions(app):
    for wrong in (5, None):
        with pytest.raises(InvalidInput, match="resource: wanted a function or class"):
            app.resource(wrong)
        with pytest.raises(InvalidInput, match=r"enqueue middleware: wanted fn\(requests, call_next\)"):
            app.enqueue_middleware(wrong)
    with pytest.raises(
        InvalidInput, match=r"resource: wanted a function or class, whose name it gets, got functools\.partial"
    ):
        app.resource(partial(dict, a=1))


def test_a_producer_without_handlers_is_not_warned(app):
    assert app.client.get(app.enqueue("mail.send", 1).id).type == "mail.send"
