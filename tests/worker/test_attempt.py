"""One attempt in this process: the arguments of a handler, and the outcome of its answer."""

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest

from holdfast import JobRequest
from holdfast.clock import DAY, HOUR, MINUTE, SECOND
from holdfast.drivers.requests import Inspect
from holdfast.errors import InvalidInput, PayloadError, StoreBusy
from holdfast.model.retry import Custom, Fixed
from holdfast.worker.control import Retry, Snooze, Unrecoverable
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.running import Run
from tests.waiting import wait_until
from tests.worker.conftest import ended


@dataclass
class Order:
    number: int
    lines: list[str]


class Parcel(msgspec.Struct):
    weight: float


def test_a_handler_gets_the_payload_and_its_result_is_stored(app):
    @app.handler("double")
    def double(payload):
        return payload * 2

    answer = double.enqueue(21)
    assert app.worker().process_once().status == "acked"
    assert app.client.result(answer.id) == 42
    assert double(4) == 8  # it can still be called


def test_a_handler_may_take_a_context(app):
    @app.handler("look", max_attempts=3, queue="q")
    def look(payload, ctx):
        assert ctx.payload == payload
        return [ctx.job.type, ctx.attempt, ctx.job.max_attempts, ctx.fence, ctx.job.queue, ctx.cancelled]

    answer = look.enqueue({"a": 1})
    app.worker().process_once()
    assert app.client.result(answer.id) == ["look", 1, 3, 1, "q", False]


def test_a_handler_may_be_async_or_a_class(app):
    @app.handler("async")
    async def wait(payload):
        return payload

    @app.handler("class")
    class Work:
        def handle(self, ctx):
            return ctx.payload

    answers = [wait.enqueue(1), Work.enqueue(2)]
    worker = app.worker()
    assert [worker.process_once().status for _ in answers] == ["acked", "acked"]
    assert [app.client.result(answer.id) for answer in answers] == [1, 2]


def test_payloads_are_converted_to_the_annotated_type(app):
    @app.handler("order")
    def order(payload: Order) -> int:
        assert isinstance(payload, Order)
        return payload.number

    @app.handler("parcel")
    def parcel(payload: Parcel, _ctx: object) -> float:
        return payload.weight

    answers = [order.enqueue(Order(7, ["a"])), parcel.enqueue({"weight": 1.5})]
    worker = app.worker()
    assert {worker.process_once().status for _ in answers} == {"acked"}
    assert [app.client.result(answer.id) for answer in answers] == [7, 1.5]


def test_a_payload_that_does_not_fit_makes_a_dead_letter_with_the_reason(app):
    @app.handler("order")
    def order(payload: Order) -> None:
        raise AssertionError(payload)

    answer = app.client.enqueue(JobRequest(type="order", payload={"number": "seven", "lines": []}))
    assert app.worker().process_once().status == "rejected"
    record = ended(app, answer)
    assert record.dead_reason == "bad payload"
    assert "Order" in record.last_error
    assert "number" in record.last_error


@pytest.mark.parametrize("way", ["raised", "returned"])
def test_a_handler_returns_or_raises_control_values(app, way):
    def answer_with(value):
        if way == "raised":
            raise value
        return value

    @app.handler("retry")
    def retry(_payload):
        return answer_with(Retry(after=timedelta(hours=1), reason="not yet"))

    @app.handler("snooze")
    def snooze(_payload):
        return answer_with(Snooze(timedelta(hours=1)))

    @app.handler("never")
    def never(_payload):
        return answer_with(Unrecoverable("no such customer"))

    answers = {task.definition.type: task.enqueue() for task in (retry, snooze, never)}
    worker = app.worker()
    assert [worker.process_once().status for _ in range(4)] == ["retried", "released", "dead", "empty"]
    records = {type_: app.client.get(answer.id) for type_, answer in answers.items()}
    assert (records["retry"].state, records["retry"].attempts, records["retry"].last_error) == ("ready", 1, "not yet")
    assert (records["snooze"].state, records["snooze"].attempts) == ("ready", 0)
    assert (records["never"].state, records["never"].dead_reason) == ("dead", "no such customer")


def wait_for_heartbeat(app, ctx):
    granted = app.driver.do(Inspect(job_ids=[ctx.job.id]))[ctx.job.id].expires_at
    wait_until(lambda: app.driver.do(Inspect(job_ids=[ctx.job.id]))[ctx.job.id].expires_at > granted)


@pytest.mark.parametrize("ending", [ValueError("stopped"), Snooze(timedelta(hours=1)), Unrecoverable("stopped")])
def test_any_ending_but_success_of_a_job_that_was_cancelled_meanwhile_counts_as_cancelled(app, ending):
    @app.handler("long")
    def long(_payload, ctx):
        app.client.cancel(ctx.job.id)
        wait_for_heartbeat(app, ctx)
        raise ending

    answer = long.enqueue()
    worker = app.worker(WorkerOptions(lease=timedelta(seconds=3)))
    assert worker.process_once().status == "cancelled"
    assert ended(app, answer).state == "cancelled"


def test_a_job_that_was_cancelled_meanwhile_and_succeeds_is_acked(app):
    @app.handler("long")
    def long(_payload, ctx):
        app.client.cancel(ctx.job.id)
        wait_for_heartbeat(app, ctx)

    answer = long.enqueue()
    assert app.worker(WorkerOptions(lease=timedelta(seconds=3))).process_once().status == "acked"
    assert ended(app, answer).state == "done"


def test_the_error_of_a_handler_is_stored_with_its_traceback(app):
    @app.handler("fail", max_attempts=1)
    def fail(_payload):
        raise ValueError("that was wrong")

    answer = fail.enqueue()
    assert app.worker().process_once().status == "dead"
    record = ended(app, answer)
    assert record.last_error.startswith("ValueError: that was wrong")
    assert "in fail" in record.last_error


def test_a_function_that_cannot_be_a_handler_is_refused(app):
    with pytest.raises(InvalidInput, match="fn\\(payload\\)"):
        app.handler("none")(lambda one, two, three: (one, two, three))
    app.handler("one")(lambda payload: payload)
    with pytest.raises(InvalidInput, match="second one for one"):
        app.handler("one")(lambda payload: payload)


def test_middleware_wraps_every_handler_and_the_first_is_the_outermost(app):
    seen = []

    @app.middleware
    def outer(ctx, call_next):
        seen.append(f"outer {ctx.job.type}")
        try:
            return call_next()
        finally:
            seen.append("outer out")

    @app.middleware
    def inner(_ctx, call_next):
        seen.append("inner")
        return call_next() + 1

    @app.handler("one")
    def one(payload):
        seen.append("handler")
        return payload

    answer = one.enqueue(1)
    app.worker().process_once()
    assert seen == ["outer one", "inner", "handler", "outer out"]
    assert app.client.result(answer.id) == 2


def test_middleware_may_end_the_attempt(app):
    @app.middleware
    def closed(_ctx, _call_next):
        raise Unrecoverable("closed today")

    @app.handler("one")
    def one(payload):
        raise AssertionError(payload)

    answer = one.enqueue(1)
    assert app.worker().process_once().status == "dead"
    assert ended(app, answer).dead_reason == "closed today"


def test_a_checkpoint_is_passed_to_the_next_attempt_in_this_process(app):
    @app.handler("steps")
    def steps(_payload, ctx):
        if ctx.checkpoint is None:
            ctx.checkpoint = {"done": 1}
            raise Retry(after=timedelta(0))
        return ctx.checkpoint

    answer = steps.enqueue()
    worker = app.worker()
    assert [worker.process_once().status for _ in range(2)] == ["retried", "acked"]
    assert app.client.result(answer.id) == {"done": 1}


def test_resources_of_this_process_are_made_once_and_closed(app):
    opened, closed = [], []

    @app.resource
    def pool():
        opened.append(1)
        return contextlib.closing(SimpleNamespace(close=lambda: closed.append(1)))

    @app.handler("use")
    def use(_payload, ctx):
        assert ctx.resources["pool"]

    app.client.enqueue([use.request() for _ in range(3)])
    worker = app.worker()
    assert [worker.process_once().status for _ in range(3)] == ["acked"] * 3
    worker.close()
    assert (opened, closed) == ([1], [1])


def test_parameters_with_defaults_are_not_filled(app):
    @app.handler("keyword")
    def keyword(payload, *, db="own"):
        return [payload, db]

    @app.handler("default")
    def default(payload, db="own"):
        return [payload, db]

    @app.handler("context")
    def context(payload, ctx=None):
        return [payload, ctx.attempt]

    answers = [task.enqueue(1) for task in (keyword, default, context)]
    worker = app.worker()
    assert [worker.process_once().status for _ in answers] == ["acked"] * 3
    assert [app.client.result(answer.id) for answer in answers] == [[1, "own"], [1, "own"], [1, 1]]
    with pytest.raises(InvalidInput):
        app.handler("needs")(lambda payload, *, db: (payload, db))


def test_a_payload_that_is_not_json_raises_payload_error(app):
    @app.handler("any")
    def anything(_payload):
        return None

    with pytest.raises(PayloadError):
        anything.enqueue(object())


def test_a_failed_heartbeat_loses_no_note(app):
    """The store was busy for a moment: the next heartbeat sends the note."""

    @app.handler("t")
    def work(_payload):
        return None

    answer = work.enqueue()
    [reservation] = app.driver.reserve(["default"], limit=1, lease_for=30 * SECOND)
    run = Run(1, reservation)
    run.add_note(None, b"7")

    class Busy:
        capabilities = app.driver.capabilities

        def do(self, _request):
            raise StoreBusy(1.0)

    for driver in (Busy(), app.driver):
        heartbeat = Heartbeat(driver, lease_for=30 * SECOND, on_lost=lambda *_: None, on_cancel=lambda _: None)
        heartbeat.add([run])
        with contextlib.suppress(StoreBusy):
            heartbeat.beat()
    assert app.driver.do(Inspect(job_ids=[answer.id]))[answer.id].note.checkpoint == b"7"
    assert run.note is None


def test_a_job_may_have_its_own_retry_policy(app):
    @app.handler("fail", retry=Fixed(timedelta(days=1)))
    def fail(_payload):
        raise ValueError("no")

    handler_policy, task_policy, request_policy = (
        fail.enqueue(),
        fail.enqueue(retry=Fixed(timedelta(hours=1))),
        app.client.enqueue(JobRequest(type="fail", retry=Fixed(timedelta(minutes=1)))),
    )
    worker = app.worker()
    assert [worker.process_once().status for _ in range(3)] == ["retried"] * 3
    records = [app.client.get(answer.id) for answer in (handler_policy, task_policy, request_policy)]
    assert [record.run_at - record.failed_at for record in records] == [DAY, HOUR, MINUTE]
    with pytest.raises(InvalidInput, match=r"retry: wanted NoDelay, .* belongs to the handler"):
        fail.enqueue(retry=Custom(lambda _: timedelta()))
