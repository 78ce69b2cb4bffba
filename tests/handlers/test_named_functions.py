"""The handlers ``event`` and ``command``: only allowed names reach functions, and only functions of the app."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from holdfast import Retry
from holdfast.errors import InvalidInput
from holdfast.handlers import Command, Event


@dataclass(frozen=True)
class User:
    name: str


def test_every_listener_of_an_event_is_called(app, run):
    calls = []
    event = app.builtin.event(allowed=["user.created"])

    @app.on("user.created")
    def greet(user: User):
        calls.append(("greet", user))

    @app.on("user.created")
    def count(payload, ctx):
        calls.append(("count", payload, ctx.job.type))

    @app.on("user.deleted")
    def forget(_payload):
        calls.append("forget")

    status, _ = run(event, Event(name="user.created", payload={"name": "Ada"}))
    assert status == "acked"
    assert calls == [("greet", User("Ada")), ("count", {"name": "Ada"}, "event")]
    assert greet(User("Bob")) is None  # still a plain function


def test_a_listener_that_has_succeeded_is_not_called_again(app, inline):
    calls = []
    event = app.builtin.event(allowed=["paid"])

    @app.on("paid")
    def fails_once(_payload, ctx):
        calls.append("fails once")
        ctx.checkpoint = {"anything": 1}  # the checkpoint is that of all listeners: this is not kept
        if ctx.attempt == 1:
            raise RuntimeError("on purpose")

    @app.on("paid")
    def succeeds(_payload):
        calls.append("succeeds")

    event.enqueue(Event(name="paid"))
    assert inline.drain(advance=True) == {"retried": 1, "acked": 1}
    assert calls == ["fails once", "succeeds", "fails once"]


def test_a_listener_may_ask_for_a_retry_and_several_failures_are_told_together(app, inline):
    event = app.builtin.event(allowed=["one", "two"])
    app.on("one")(lambda _payload: Retry(after=timedelta(minutes=5)))

    @app.on("two")
    def first(_payload):
        raise ValueError("first")

    @app.on("two")
    def second(_payload):
        raise ValueError("second")

    with pytest.raises(Retry):
        inline.run_job(event, Event(name="one"))
    with pytest.raises(ExceptionGroup, match="2 listeners of two failed"):
        inline.run_job(event, Event(name="two"))


def test_a_listener_whose_call_does_no_work_fails(app, inline):
    event = app.builtin.event(allowed=["generator", "class"])
    app.on("generator")(lambda _payload: (number for number in range(3)))
    app.on("class")(lambda _payload: Retry)
    with pytest.raises(TypeError, match="returned a generator"):
        inline.run_job(event, Event(name="generator"))
    with pytest.raises(Retry):
        inline.run_job(event, Event(name="class"))


def test_a_command_is_a_function_of_the_app_by_its_name(app, inline, run):
    command = app.builtin.command(allowed=["reindex"])

    @app.command("reindex")
    def reindex(user: User, ctx):
        return {"user": user.name, "attempt": ctx.attempt}

    assert inline.run_job(command, Command(name="reindex", payload={"name": "Ada"})) == {"user": "Ada", "attempt": 1}
    status, record = run(command, Command(name="reindex", payload={"nom": "Ada"}))
    assert status == "dead"
    assert record.dead_reason.startswith("bad payload")


@pytest.mark.parametrize("name", ["os.system", "os:system", "builtins.eval", "__import__", "reindex ", "", "drop"])
def test_a_command_that_is_not_allowed_is_not_called(app, run, name):
    calls = []

    @app.command("drop")
    def drop(payload):
        calls.append(payload)

    status, record = run(app.builtin.command(allowed=["reindex"]), Command(name=name, payload="id"))
    assert (status, record.dead_reason) == ("dead", f"not allowed: the command {name!r} is not in allowed_commands")
    assert calls == []


@pytest.mark.parametrize("what", ["event", "command"])
def test_an_allowed_name_without_a_function_waits_for_a_worker_that_has_it(app, inline, what):
    """As a type without a handler does in a rolling deploy; after an hour it is a dead letter."""
    if what == "event":
        job = app.builtin.event(allowed=["os.system"]).enqueue(Event(name="os.system"))
    else:
        job = app.builtin.command(allowed=["os.system"]).enqueue(Command(name="os.system"))
    assert inline.drain() == {"released": 1}
    inline.drain(advance=True)
    record = app.client.get(job.id)
    assert record.state == "dead"
    assert record.attempts <= 1


def test_a_name_has_one_command_and_a_listener_is_registered_once(app):
    def function(_payload):
        pass

    async def asynchronous(_payload):
        pass

    app.command("reindex")(function)
    app.on("paid")(function)
    for register in (app.command("reindex"), app.on("paid")):
        with pytest.raises(InvalidInput):
            register(function)
    for register in (app.command("other"), app.on("paid")):
        with pytest.raises(InvalidInput, match="a plain function"):
            register(asynchronous)


def test_an_app_without_built_in_handlers_has_none_of_their_types(app):
    app.on("paid")(print_nothing)
    assert app.catalogue.types == frozenset()
    app.builtin.event(type="events", queue="events")
    assert app.catalogue.types == {"events"}
    assert list(app.queues) == ["events"]


def print_nothing(_payload):
    pass
