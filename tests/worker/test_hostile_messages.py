"""Handlers that make their child process send what the worker cannot use: only their own attempt is hurt."""

from datetime import timedelta

import pytest

from holdfast.worker.control import Retry, Snooze, Unrecoverable
from tests.worker.conftest import ended

pytestmark = pytest.mark.timeout(120)
HEALTHY_JOBS = 100
CHECKPOINT_CHARACTERS = 60_000
REPORTS_PER_THREAD = 40


@pytest.fixture
def healthy(app):
    """Return a function that checks that all healthy jobs beside the hostile ones were done in one attempt."""

    @app.handler("healthy", max_attempts=1)
    def work(payload):
        return payload

    answers = work.enqueue_many(range(HEALTHY_JOBS))

    def check():
        assert [app.client.result(answer.id) for answer in answers] == list(range(HEALTHY_JOBS))

    return check


# Texts ------------------------------------------------------------------------------------------------------


class Unprintable(BaseException):
    def __str__(self):
        raise RuntimeError("no text")


class UnprintableValue:
    def __str__(self):
        raise RuntimeError("no text")


def changed(control, **attributes):
    for name, value in attributes.items():
        setattr(control, name, value)
    return control


CONTROL_VALUES = {
    "a number as the reason": (lambda: Unrecoverable(404), "404"),
    "a surrogate as the reason": (lambda: Unrecoverable("\ud800"), "\\ud800"),
    "an exception as the reason": (lambda: Unrecoverable(ValueError("bad")), "ValueError: bad"),
    "a value without a text": (lambda: Unrecoverable(UnprintableValue()), "UnprintableValue"),
    "a reason that was replaced": (lambda: changed(Unrecoverable("x"), reason=[1, 2]), "[1, 2]"),
    "a retry with a number": (lambda: Retry(reason=503), "503"),
    "a retry with an exception": (lambda: Retry(reason=KeyError("k")), "KeyError: 'k'"),
    "a retry with a surrogate": (lambda: Retry(reason="\udcff"), "\\udcff"),
    "a retry with NUL": (lambda: Retry(reason="a\0b"), "a\\x00b"),
    "a retry of megabytes": (lambda: Retry(reason="x" * 5_000_000), "characters"),
    "a retry whose delay was replaced": (lambda: changed(Retry(), after=timedelta(1)), "after: wanted"),
    "a snooze whose delay was replaced": (lambda: changed(Snooze(timedelta(1)), delay="soon"), "delay: wanted"),
    "an exception without a text": (Unprintable, "Unprintable"),
    "an exception with a surrogate": (lambda: SystemExit("\ud800"), "\\ud800"),
    "a syntax error with a bad place": (lambda: SyntaxError("bad", ("f", "one", object(), 3)), "SyntaxError"),
}


def test_any_text_of_a_handler_reaches_the_store_in_a_form_that_can_be_read(app, drain, healthy):
    @app.handler("control", max_attempts=1)
    def control(payload):
        make_control, _ = CONTROL_VALUES[payload]
        raise make_control()

    answers = {name: control.enqueue(name) for name in CONTROL_VALUES}
    drain()
    for name, answer in answers.items():
        record = ended(app, answer)
        assert (record.state, record.crashes) == ("dead", 0), (name, record)
        assert CONTROL_VALUES[name][1] in f"{record.dead_reason}\n{record.last_error}", (name, record)
    healthy()


def test_a_snooze_with_any_reason_is_a_snooze(app, drain, healthy):
    @app.handler("snooze")
    def snooze(_payload, ctx):
        if ctx.checkpoint is None:
            ctx.checkpoint = 1
            return Snooze(timedelta(milliseconds=1), reason=OSError("\udc80"))
        return ctx.attempt

    answer = snooze.enqueue()
    drain()
    assert app.client.result(answer.id) == 1
    healthy()
