"""The shortest forms of a handler: without parentheses, without a type, without parameters."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import timedelta

import pytest

from holdfast import Context, JobRequest
from holdfast.clock import ManualClock
from holdfast.errors import InvalidInput, PayloadError
from holdfast.model.job import State
from holdfast.spark.execution.row_handler import make_row_handler
from holdfast.testing import Inline
from holdfast.worker.worker import Worker


def test_a_handler_without_parentheses_has_the_name_of_its_function_as_its_type(app, drain):
    @app.handler
    def greet(payload: str) -> str:
        return f"hello {payload}"

    @app.handler
    class Count:
        def handle(self, payload: list[int], _ctx: Context) -> int:
            return sum(payload)

    @app.handler
    async def later(payload, ctx):
        return [payload, ctx.attempt]

    jobs = [greet.enqueue("ada"), Count.enqueue([1, 2]), later.enqueue("x")]
    assert app.catalogue.types == {"greet", "Count", "later"}
    assert greet("bob") == "hello bob"
    with pytest.raises(PayloadError):
        greet.enqueue(5)
    assert drain() == {"acked": 3}
    assert [app.client.result(job.id) for job in jobs] == ["hello ada", 3, ["x", 1]]


def test_a_handler_without_a_type_takes_every_option(app, drain):
    @app.handler(queue="mail", max_attempts=3, timeout=timedelta(minutes=1))
    def send(payload):
        return payload

    @app.handler()
    def plain(payload):
        return payload

    @app.handler(chunk=2)
    def chunked(payloads):
        return payloads

    @app.handler(rate="100/s", max_inflight=5)
    def limited(payload):
        return payload

    assert app.catalogue.types == {"send", "plain", "chunked", "limited"}
    job = app.driver.get(send.enqueue(1).id)
    assert (job.type, job.queue, job.max_attempts) == ("send", "mail", 3)
    assert limited.handler.limits.type == "limited"
    for task in (plain, chunked, limited):
        task.enqueue(1)
    assert drain() == {"acked": 4}


def test_local_names_in_annotations_are_found_in_every_form(app):
    @dataclass
    class Local:
        to: str

    @app.handler
    def bare(payload: Local):
        pass

    @app.handler()
    def named(payload: Local):
        pass

    assert bare.handler.payload_type is not None
    assert named.handler.payload_type is not None


def test_a_handler_without_parameters_runs_jobs_without_a_payload(app, drain):
    @app.handler("nightly")
    def nightly():
        return "done"

    @app.handler
    async def also():
        return "done, too"

    @app.handler
    def options(*, dry_run=False):
        return dry_run

    @app.handler
    class Whole:
        def handle(self):
            return "class"

    jobs = [task.enqueue() for task in (nightly, also, options, Whole)]
    assert nightly() == "done"
    with pytest.raises(PayloadError, match="payload: wanted"):
        nightly.enqueue({"a": 1})
    strange = app.client.enqueue(JobRequest(type="nightly", payload={"a": 1})).id
    assert drain() == {"acked": 4, "rejected": 1}
    assert [app.client.result(job.id) for job in jobs] == ["done", "done, too", False, "class"]
    job = app.driver.get(strange)
    assert (job.state, job.dead_reason) == (State.DEAD, "bad payload")


def test_a_schedule_runs_a_handler_without_parameters(app):
    @app.handler(cron="0 6 * * *")
    def nightly():
        return "done"

    @app.handler
    def hourly():
        return "done"

    app.cron("each-hour").hourly().run(hourly)
    assert app.code_schedules["nightly"].type == "nightly"
    assert app.code_schedules["each-hour"].type == "hourly"
    with pytest.raises(InvalidInput, match="payload"):
        app.cron("wrong").hourly().run(hourly, {"a": 1})


def test_a_worker_without_an_app_and_inline_runs_take_them_too(app):
    worker = Worker(app.driver)
    worker.register("nightly", lambda: "done")
    app.client.enqueue(JobRequest(type="nightly"))
    assert worker.process_once().status == "acked"

    @app.handler
    def nightly():
        return "done"

    inline = Inline(app, ManualClock())
    assert inline.run_job(nightly) == "done"
    assert inline.run_job(lambda: 5) == 5


@pytest.mark.parametrize(
    ("function", "got"),
    [
        (lambda payload: payload, "<lambda>"),
        (functools.partial(int, 5), "functools.partial"),
    ],
)
def test_a_function_without_a_usable_name_needs_a_type(app, function, got):
    for decorate in (app.handler, app.handler()):
        with pytest.raises(InvalidInput, match=r"type: wanted .*, got .*") as refused:
            decorate(function)
        assert got in str(refused.value)
        assert "app.handler(" in str(refused.value)
    assert app.handler("named")(lambda payload: payload)(3) == 3


def test_two_functions_of_one_name_are_two_handlers_of_one_type(app):
    def first():
        def same():
            pass

        return same

    app.handler(first())
    with pytest.raises(InvalidInput, match="a second one for same"):
        app.handler(first())


@pytest.mark.parametrize("wrong", [5, b"mail", "", "a b", ["mail"]])
def test_what_is_neither_a_type_nor_a_function_is_refused(app, wrong):
    with pytest.raises(InvalidInput, match="type: wanted"):
        app.handler(wrong)(lambda payload: payload)


def test_a_chunk_has_a_parameter_and_so_has_a_function_of_any_arguments(app):
    for function in (lambda: None, lambda *args: args, lambda **keywords: keywords):
        with pytest.raises(InvalidInput, match="handler: wanted fn"):
            app.handler("t", chunk=2)(function)
    for function in (lambda *args: args, lambda **keywords: keywords, lambda *, must: must):
        with pytest.raises(InvalidInput, match="handler: wanted fn"):
            app.handler("t")(function)
    assert not app.catalogue.types


def test_a_run_of_a_frame_needs_a_handler_with_a_parameter(app):
    task = app.handler("nightly")(lambda: None)
    for function in (lambda: None, task):
        with pytest.raises(InvalidInput, match=r"handler: wanted fn\(row\) or fn\(row, ctx\)"):
            make_row_handler("t", function, columns=None)
