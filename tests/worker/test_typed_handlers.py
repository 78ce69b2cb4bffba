"""Handlers with annotated payloads and results: from ``enqueue`` through a worker to ``result``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from holdfast import Context, JobRequest
from holdfast.errors import InvalidInput, JobNotDone, PayloadError, WaitTimeout
from holdfast.worker.control import Retry
from tests.worker.conftest import ended

if TYPE_CHECKING:
    from tests.worker.unknown import OnlyForTypeCheckers

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


class Mail(pydantic.BaseModel):
    to: str
    at: datetime = NOON


class Receipt(pydantic.BaseModel):
    id: UUID
    mails: list[Mail]


@dataclass
class Order:
    price: Decimal
    colour: Colour


class Parcel(msgspec.Struct):
    order: Order


class Address(TypedDict):
    street: str


class SubContext(Context):
    pass


class HasAttempt(Protocol):
    attempt: int


RECEIPT = Receipt(id=UUID(int=1), mails=[Mail(to="ada")])
ORDER = Order(Decimal("1.10"), Colour.RED)


def test_every_kind_of_type_travels_to_the_handler_and_back(app, drain):
    def echo(name, annotation):
        def handler(payload, _ctx):
            return payload

        handler.__annotations__ = {"payload": annotation, "return": annotation}
        return app.handler(name)(handler)

    values = {
        "pydantic": (Receipt, RECEIPT),
        "dataclass": (Order, ORDER),
        "struct": (Parcel, Parcel(ORDER)),
        "typed-dict": (Address, {"street": "Main"}),
        "list": (list[Mail], [Mail(to="a"), Mail(to="b")]),
        "optional": (Mail | None, Mail(to="a")),
        "none": (Mail | None, None),
        "dict": (dict[str, Mail], {"a": Mail(to="a")}),
        "dict-of-numbers": (dict[int, Mail], {1: Mail(to="a")}),
        "enum": (Colour, Colour.RED),
        "scalars": (tuple[datetime, UUID, Decimal], (NOON, UUID(int=2), Decimal("0.10"))),
    }
    tasks = {name: echo(name, annotation) for name, (annotation, _) in values.items()}
    jobs = {name: tasks[name].enqueue(value) for name, (_, value) in values.items()}
    assert drain() == {"acked": len(values)}
    assert {name: tasks[name].result(job) for name, job in jobs.items()} == {
        name: value for name, (_, value) in values.items()
    }


def test_every_form_of_handler_has_its_types(app):
    @app.handler("plain")
    def plain(payload: Mail) -> str:
        return payload.to

    @app.handler("context")
    def with_context(payload: Mail, ctx: Context) -> Receipt | Retry:
        return Receipt(id=UUID(int=ctx.attempt), mails=[payload])

    @app.handler("async")
    async def wait(payload: Mail) -> list[Mail]:
        return [payload]

    @app.handler("chunk", chunk=5)
    def chunk(payloads: list[Mail]) -> Sequence[Mail | Exception]:
        return payloads

    @app.handler("class")
    class WithPayload:
        async def handle(self, payload: Mail, ctx: Context) -> Mail:
            assert ctx.payload == {"to": "ada", "at": "2030-01-01T12:00:00Z"}
            return payload

    @app.handler("class-context")
    class WithContext:
        def handle(self, ctx: Context) -> int:
            return ctx.attempt

    mail = Mail(to="ada")
    wanted = {plain: "ada", with_context: Receipt(id=UUID(int=1), mails=[mail]), wait: [mail], chunk: mail}
    wanted |= {WithPayload: mail, WithContext: 1}
    jobs = {task: task.enqueue(mail) for task in wanted}
    worker = app.worker()
    assert [worker.process_once().status for _ in jobs] == ["acked"] * len(jobs)
    assert {task: task.result(job) for task, job in jobs.items()} == wanted
    for task in (plain, with_context, wait, chunk, WithPayload):
        with pytest.raises(InvalidInput, match="payload: wanted Mail, got to: Field required"):
            task.enqueue({})


def test_a_payload_may_be_given_as_json_and_is_stored_as_its_type_writes_it(app):
    @app.handler("mail")
    def send(payload: Mail) -> None:
        raise AssertionError(payload)

    given = [Mail(to="ada"), {"to": "ada"}, {"to": "ada", "at": "2030-01-01T12:00:00Z"}]
    answers = [send.enqueue(one, idempotency_key="k") for one in given]
    assert [one.existed for one in answers] == [False, True, True]  # the same payload: no conflict
    [bulk] = send.enqueue_many([{"to": "ada"}])
    assert app.client.get(bulk.id).payload == b'{"to":"ada","at":"2030-01-01T12:00:00Z"}'


def test_many_payloads_with_a_bad_one_store_nothing(app):
    @app.handler("mail")
    def send(payload: Mail) -> None:
        raise AssertionError(payload)

    with pytest.raises(InvalidInput, match="wanted Mail"):
        send.enqueue_many([Mail(to="ada"), 5])
    assert app.driver.find().items == []


def test_a_local_type_and_a_context_for_type_checkers_are_understood(app):
    @dataclass
    class Local:
        number: int

    @app.handler("local")
    def local(payload: Local, _ctx: OnlyForTypeCheckers) -> Local:
        return payload

    job = local.enqueue(Local(3))
    app.worker().process_once()
    assert local.result(job) == Local(3)


def test_a_payload_type_for_type_checkers_only_is_refused(app):
    with pytest.raises(InvalidInput, match="outside of TYPE_CHECKING, got OnlyForTypeCheckers"):

        @app.handler("mail")
        def send(payload: OnlyForTypeCheckers) -> None: ...


@pytest.mark.parametrize("annotation", [str, "int", dict[str, int], "Mail", list[str]], ids=str)
def test_a_second_parameter_that_is_not_the_context_is_refused(app, annotation):
    def send(to: str, subject):
        return to, subject

    send.__annotations__["subject"] = annotation
    with pytest.raises(InvalidInput, match=r"the context as second parameter .*one payload.*, got subject: \w+"):
        app.handler("mail")(send)


@pytest.mark.parametrize(
    "annotation", [Context, "Context", Any, object, SubContext, HasAttempt, Context | None, "Missing", "time.missing"]
)
def test_a_context_may_be_annotated_in_many_ways(app, annotation):
    def send(payload: str, subject):
        return payload, subject.attempt

    send.__annotations__["subject"] = annotation
    assert app.handler("mail")(send).handler.wants_context


def test_a_result_type_for_type_checkers_only_is_refused_when_a_result_is_read(app):
    @app.handler("mail")
    def send(payload) -> OnlyForTypeCheckers:
        return payload

    job = send.enqueue(1)
    app.worker().process_once()
    with pytest.raises(InvalidInput, match="got OnlyForTypeCheckers"):
        send.result(job)


@pytest.mark.parametrize("function", [time.sleep, 5, "text", object])
def test_what_is_not_a_handler_is_refused_with_the_wanted_forms(app, function):
    with pytest.raises(InvalidInput, match=r"handler: wanted fn\(payload\), fn\(payload, ctx\), fn\(\) or a class"):
        app.handler("t")(function)


# Results ------------------------------------------------------------------------------------------------------


@pytest.fixture
def double(app):
    @app.handler("double")
    def double(payload: int) -> int:
        return payload * 2

    return double


def test_a_result_is_read_by_id_by_answer_and_by_record(app, double):
    job = double.enqueue(2)
    app.worker().process_once()
    assert [double.result(one) for one in (job.id, job, ended(app, job))] == [4, 4, 4]
    assert double.result(job, timeout=30) == 4


def test_a_result_may_be_waited_for(app, double):
    job = double.enqueue(2)
    with pytest.raises(JobNotDone):
        double.result(job)
    with pytest.raises(WaitTimeout):
        double.result(job, timeout=0.001)


def test_a_result_of_another_type_is_an_error(app, double):
    app.handler("text")(lambda payload: payload)
    job = app.client.enqueue(JobRequest(type="text", payload="four"))
    app.worker().process_once()
    with pytest.raises(PayloadError, match="result: wanted int, got Expected `int`, got `str`"):
        double.result(job)


def test_async_callers_enqueue_and_read_results(app, double):
    async def call():
        job = await double.aenqueue(2, priority=3)
        many = await double.aenqueue_many([3, 4], keys=["a", "b"])
        assert [await asyncio.to_thread(app.worker().process_once) for _ in range(3)]
        assert (await app.async_client.get(job.id)).priority == 3
        return [await double.aresult(one, timeout=30) for one in (job, *many)]

    assert asyncio.run(call()) == [4, 6, 8]
    with pytest.raises(InvalidInput, match="wanted int"):
        asyncio.run(double.aenqueue("two"))


def test_an_async_client_follows_the_store_of_its_app(app, double):
    async def use_and_close():
        async with app.async_client as client:
            assert client is app.async_client
            return await double.aenqueue(1)

    first = asyncio.run(use_and_close())
    second = asyncio.run(use_and_close())  # it was closed, and is opened again
    assert [app.client.get(one.id).type for one in (first, second)] == ["double", "double"]


def test_a_class_may_have_options_beside_its_context(app):
    @app.handler("class")
    class Work:
        def handle(self, ctx, verbose=False):
            return [ctx.payload, verbose]

    job = Work.enqueue(1)
    app.worker().process_once()
    assert Work.result(job) == [1, False]
